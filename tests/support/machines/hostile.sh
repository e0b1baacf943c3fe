#!/usr/bin/env bash
# Runs a command as on a machine that is nobody's test machine: a path with blanks and banned names, another zone and
# locale, proxies that answer nothing, a HOME that cannot be written, and the usual ports taken. Needs root;
# `tests/support/machines/hostile.sh make test`, with `bare.sh` before it where no program is to be seen either.
set -euo pipefail

if [ "${1:-}" != --inside ]; then
  [ $# -gt 0 ] || { echo "hostile.sh: no command: expected one, such as make test" >&2; exit 2; }
  [ "$(id -u)" = 0 ] || { echo "hostile.sh: it mounts, which only root may: run it as root" >&2; exit 2; }
  place="$(mktemp -d)"
  trap 'rmdir "$place"' EXIT
  unshare --mount --propagation private "${BASH_SOURCE[0]}" --inside "$place" "$@"
  exit # with its code
fi
place="$2"
shift 2

# Takes the ports of sshd's containers, runs, exporters, services and databases where nobody has them, and another one,
# whose number it writes: none answers anybody.
silent='
import socket, sys
taken = []
for port in (2222, 3000, 5432, 6379, 8080, 9090, 9093, 9100, 9410, 9411, 9412, 0):
    one = socket.socket()
    try:
        one.bind(("127.0.0.1", port))
    except OSError:
        if port == 0:
            raise
        continue
    one.listen(1000)
    taken.append(one)
print(taken[-1].getsockname()[1], flush=True)
sys.stdin.read()  # to the end of the command
'
checkout="$(cd "$(dirname "${BASH_SOURCE[0]}")/../../.." && pwd)"
mount -t tmpfs hostile "$place" # all that is mounted here goes with this process
mkdir -p "$place/home" "$place/new/common/utils dir/voxyard"
mount --bind "$checkout" "$place/new/common/utils dir/voxyard"
mount --bind -o ro "$place/home" "$place/home"
mount -o remount,bind,ro "$place/home"
exec 3< <(python3 -c "$silent" < <(tail --pid=$$ -f /dev/null))
read -r -u 3 port

cd "$place/new/common/utils dir/voxyard"
unset LANG LANGUAGE "${!LC_@}" "${!XDG_@}"
for proxy in http_proxy https_proxy all_proxy HTTP_PROXY HTTPS_PROXY ALL_PROXY; do
  export "$proxy=http://127.0.0.1:$port"
done
unset no_proxy NO_PROXY
export TZ=Asia/Kathmandu LC_ALL=C HOME="$place/home"
export PYTHONPATH="$PWD/runtime" # .venv was made for the checkout's own path
# pytest's bytecode names this path, in which later tracebacks would find no source.
trap 'find tests -name "*-pytest-*.pyc" -newer "$place/new" -delete' EXIT
"$@"
