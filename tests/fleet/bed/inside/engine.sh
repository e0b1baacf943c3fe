#!/bin/sh
# Starts the host's Docker engine; a process id of before the container was restarted would stop it.
set -eu
rm -f /run/docker.pid
setsid dockerd --exec-opt native.cgroupdriver=cgroupfs --cgroup-parent "$BED_CGROUP" \
  </dev/null >>/var/log/dockerd.log 2>&1 &
