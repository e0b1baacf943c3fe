#!/usr/bin/env bash
# Runs a command as on a bare Debian: of what is installed only Debian's required packages, make, git, Python and the
# certificates are to be seen. Needs root; `tests/support/machines/bare.sh make test`.
set -euo pipefail

hidden=(/usr/local/sbin /usr/local/bin /usr/sbin /usr/bin)
databases=/usr/lib/postgresql # its programs are not on the PATH

refuse() {
  echo "bare.sh: $1" >&2
  exit 2
}

if [ "${1:-}" != --inside ]; then
  [ $# -gt 0 ] || refuse "no command: expected tests/support/machines/bare.sh COMMAND…, such as make test"
  [ "$(id -u)" = 0 ] || refuse "programs are hidden by mounts, which only root may make: run it as root"
  command -v dpkg-query >/dev/null || refuse "needs Debian's dpkg, which knows the programs of a bare machine"
  kept="$(mktemp -d)"
  trap 'rmdir "$kept"' EXIT
  unshare --mount --propagation private "${BASH_SOURCE[0]}" --inside "$kept" "$@"
  exit # with its code
fi
kept="$2"
shift 2

mount -t tmpfs -o mode=755 bare "$kept" # all that is mounted here goes with this process
python="$(readlink -f "$(command -v python3)")"
wanted='^required |^[a-z]+ (apt|ca-certificates|git|gpgv|make|mawk|openssl|python3(\.[0-9]+)?(-minimal|-venv)?)$'
packages() { dpkg-query --show --showformat '${Priority} ${Package}\n' | awk -v wanted="$wanted" '$0 ~ wanted { print $2 }'; }
programs() { # below /
  packages | xargs dpkg-query --listfiles | sed -nE 's,^(/usr)?/(s?bin/[^/]+)$,usr/\2,p'
  printf '%s\n' usr/bin/awk usr/bin/which "${python#/}" # of no package: by update-alternatives, perhaps built here
}
programs | sort -u | while read -r program; do if [ -L "/$program" ] || [ -e "/$program" ]; then echo "$program"; fi; done |
  tar --create --directory=/ --files-from=- | tar --extract --directory="$kept"
for folder in "${hidden[@]}"; do
  [ -d "$folder" ] && [ ! -L "$folder" ] || continue
  mkdir -p "$kept$folder"
  mount --bind "$kept$folder" "$folder"
done
[ -e /usr/bin/python3 ] || ln -s "$python" /usr/bin/python3
[ ! -d "$databases" ] || mount -t tmpfs bare "$databases"
[ ! -S /run/docker.sock ] || mount --bind /dev/null /run/docker.sock
export PATH=/usr/sbin:/usr/bin:/sbin:/bin
unset CI # under it what is missing would be a failure
exec "$@"
