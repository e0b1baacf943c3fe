# Prometheus, Alertmanager and node_exporter as Debian packs them, in the place of the images of their makers.
ARG BASE
FROM ${BASE} AS packages
SHELL ["/bin/sh", "-eu", "-c"]
# Only the programs: what their packages want besides (the pages' scripts and fonts) is many times as large.
RUN --mount=type=secret,id=apt_config,target=/etc/apt/apt.conf.d/99machine \
    --mount=type=secret,id=ca_bundle,target=/run/ca_bundle \
    if [ -s /run/ca_bundle ]; then export SSL_CERT_FILE=/run/ca_bundle; \
      echo 'Acquire::https::CaInfo "/run/ca_bundle";' > /etc/apt/apt.conf.d/98bundle; fi; \
    apt-get update --quiet; \
    cd /tmp; \
    apt-get download --quiet prometheus prometheus-alertmanager prometheus-node-exporter; \
    for each in *.deb; do dpkg-deb --extract "$each" /programs; done

FROM ${BASE}
COPY --from=packages /programs/usr/bin/ /usr/bin/
COPY --from=packages /programs/usr/share/prometheus/ /usr/share/prometheus/
COPY --chmod=0755 wget.py /usr/bin/wget
# The command line is another for each, and stands in the compose file; which program it is, stands here.
ARG PROGRAM
RUN ln -s "/usr/bin/${PROGRAM}" /usr/bin/program
USER nobody
ENTRYPOINT ["/usr/bin/program"]
