# A host of the test bed that a provider has just set up: sudo, and neither Docker, Compose nor rsync. Their packages are
# in a repository on its own disk: it reaches no other. systemctl starts the engine, which is all that systemd does here.
ARG HOST
FROM ${HOST}
SHELL ["/bin/sh", "-eu", "-c"]
RUN --mount=type=secret,id=apt_config,target=/etc/apt/apt.conf.d/99machine \
    --mount=type=secret,id=ca_bundle,target=/run/ca_bundle \
    if [ -s /run/ca_bundle ]; then export SSL_CERT_FILE=/run/ca_bundle; \
      echo 'Acquire::https::CaInfo "/run/ca_bundle";' > /etc/apt/apt.conf.d/98bundle; fi; \
    apt-get update --quiet; \
    DEBIAN_FRONTEND=noninteractive apt-get install --yes --quiet --no-install-recommends sudo; \
    apt-get install --yes --quiet --reinstall --download-only docker.io rsync; \
    mkdir /srv/packages; \
    mv /var/cache/apt/archives/*.deb /srv/packages; \
    rm -rf /var/lib/apt/lists/* /etc/apt/apt.conf.d/98bundle /etc/apt/sources.list /etc/apt/sources.list.d
WORKDIR /srv/packages
RUN mkdir -p compose/DEBIAN compose/usr/libexec/docker/cli-plugins; \
    mv /usr/libexec/docker/cli-plugins/docker-compose compose/usr/libexec/docker/cli-plugins; \
    printf '%s\n' 'Package: docker-compose' 'Version: 2.26.1-4' 'Architecture: all' 'Maintainer: test bed' \
      'Description: Compose, as the next Debian has it' > compose/DEBIAN/control; \
    dpkg-deb --build compose docker-compose_2.26.1-4_all.deb; \
    rm -r compose; \
    for each in *.deb; do \
      dpkg-deb --field "$each"; \
      printf 'Filename: ./%s\nSize: %s\nSHA256: %s\n\n' "$each" "$(stat -c %s "$each")" "$(sha256sum < "$each" | cut -c -64)"; \
    done > Packages; \
    echo 'deb [trusted=yes] file:/srv/packages ./' > /etc/apt/sources.list; \
    echo 'voxyard ALL=(ALL) NOPASSWD: ALL' > /etc/sudoers.d/voxyard; \
    printf '#!/bin/sh\nexit 101\n' > /usr/sbin/policy-rc.d; \
    chmod 0755 /usr/sbin/policy-rc.d; \
    ln -s /opt/bed/systemctl.sh /usr/local/bin/systemctl
WORKDIR /
