# A host of the test bed: sshd and login shells, Debian's Docker engine, and Compose from the next release (the build context).
# Debian's registry is in it too: started from the same image, it is the registry of the bed.
ARG BASE
FROM ${BASE}
SHELL ["/bin/sh", "-eu", "-c"]
# Host keys are made when a host starts, so that no two hosts have the same.
RUN --mount=type=secret,id=apt_config,target=/etc/apt/apt.conf.d/99machine \
    --mount=type=secret,id=ca_bundle,target=/run/ca_bundle \
    if [ -s /run/ca_bundle ]; then export SSL_CERT_FILE=/run/ca_bundle; \
      echo 'Acquire::https::CaInfo "/run/ca_bundle";' > /etc/apt/apt.conf.d/98bundle; fi; \
    apt-get update --quiet; \
    DEBIAN_FRONTEND=noninteractive apt-get install --yes --quiet --no-install-recommends \
      docker.io docker-registry iproute2 iptables openssh-server procps rsync busybox-static fish tcsh; \
    apt-get clean; \
    ln -s busybox /bin/ash; \
    rm -rf /var/lib/apt/lists/* /var/cache/debconf/*-old /etc/ssh/ssh_host_* /etc/apt/apt.conf.d/98bundle
COPY --chmod=0755 docker-compose /usr/libexec/docker/cli-plugins/docker-compose
RUN useradd --create-home --shell /bin/bash --groups docker --password '*' voxyard
COPY sshd.conf /etc/ssh/sshd_config.d/voxyard.conf
