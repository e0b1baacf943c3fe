#!/bin/sh
# What runs in a host of the test bed: the login's key is put in place, the engine is started, sshd stays.
set -eu
home=/home/voxyard
install -d -o voxyard -g voxyard -m 0700 "$home/.ssh"
install -o voxyard -g voxyard -m 0600 /opt/bed-key/authorized_keys "$home/.ssh/authorized_keys"
[ -e /etc/ssh/ssh_host_ed25519_key ] || ssh-keygen -q -t ed25519 -N '' -f /etc/ssh/ssh_host_ed25519_key
mkdir -p /run/sshd
ln -sf /opt/bed/nvidia_smi.py /usr/bin/nvidia-smi
[ "$BED_TOOLKIT" = no ] || ln -sf /opt/bed/toolkit_hook.py /usr/bin/nvidia-container-runtime-hook
# A file system of its own under Docker's root, whose size can be changed: without a disk, in memory.
[ "$BED_DOCKER_DISK" = machine ] || mount -t tmpfs -o "size=$BED_DOCKER_DISK,mode=0710" tmpfs /var/lib/docker
# As systemd leaves it: mounts that come later are seen by containers that ask for them.
mount --make-rshared /
/opt/bed/engine.sh
exec /usr/sbin/sshd -D -e
