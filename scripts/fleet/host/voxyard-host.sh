#!/bin/sh
# What the fleet's tasks do on a host, as verbs: sh -c "$(cat voxyard-host.sh)" voxyard-host VERB [ARGUMENT]...
# It travels with each exchange that needs it and is not installed: a host never has another version of it.
# shellcheck disable=SC2329  # the last line calls the verbs
set -eu
umask 077
home=$HOME/.voxyard

# -- lock: one change at a time --------------------------------------------------------------------------------------

# Prints a lock file, its time and the time now; nothing where it has just gone.
print_lock() {
  { cat; echo; date -r /dev/stdin +%s; date +%s; } < "$1"
}

# CONTENT TOKEN: creates the lock file atomically; prints an existing one and exits with 75.
lock_take() {
  mkdir -p "$home"
  cd "$home"
  printf '%s\n' "$1" > ".lock.$2"
  if ln ".lock.$2" lock 2>/dev/null; then  # link creation is atomic
    rm -f ".lock.$2"
    return
  fi
  rm -f ".lock.$2"
  if [ -e lock ]; then
    print_lock lock
    exit 75
  fi
  echo 'no lock file can be made in ~/.voxyard' >&2
  exit 1
}

lock_show() {
  cd "$home" 2>/dev/null || exit 0
  if [ -e lock ]; then print_lock lock || true; fi
}

# TOKEN: removes the lock file of this token only.
lock_give_back() {
  cd "$home"
  if grep -qs -- "$1" lock; then rm -f lock; fi
}

# TOKEN: removes the lock file of any owner and prints it.
lock_break() {
  cd "$home" 2>/dev/null || exit 0
  said=$(mv -T lock ".lock.$1.broken" 2>&1) || {
    [ -e lock ] || exit 0
    echo "$said" >&2
    exit 1
  }
  print_lock ".lock.$1.broken"
  rm -f ".lock.$1.broken"
}

# -- audit log -------------------------------------------------------------------------------------------------------

# TAG LONGEST END: appends a line of JSON that ends with END and has the SHA-256 of the line before it, or of all lines
# before the first one with a hash; prints "no journal" where neither journal nor syslog took it.
audit_append() {
  mkdir -p "$home"
  cd "$home"
  exec 9>> audit.jsonl
  flock 9  # of two writers the second hashes the first one's line
  if [ -n "$(tail -c 1 audit.jsonl)" ]; then echo >&9; fi  # a write that was cut off
  last=$(tail -n 1 audit.jsonl)
  case $last in
    '') previous='' ;;
    *'"previous": "'*) previous=$(printf %s "$last" | sha256sum) ;;
    *) previous=$(sha256sum < audit.jsonl) ;;
  esac
  line=$(printf '{"at": "%s", "previous": "%s", %s' "$(date -u +%Y-%m-%dT%H:%M:%SZ)" "${previous%% *}" "$3")
  printf '%s\n' "$line" >&9
  printf '%s\n' "$line" | systemd-cat -t "$1" 2>/dev/null ||
    logger --socket-errors=on --size "$2" -t "$1" -- "$line" 2>/dev/null || echo 'no journal'
}

# ACTIONS: prints the last line of one of the actions, as in deploy|rollback.
audit_last() {
  grep -sE "\"what\": \"($1)\"" "$home/audit.jsonl" | tail -n 1
}

# TAG LINES: prints the newest lines of the journal, then the file, in base64, one line each.
audit_show() {
  journalctl --quiet --no-pager --lines "$2" --output cat --identifier "$1" "_UID=$(id -u)" 2>/dev/null | base64 -w 0
  echo
  base64 -w 0 "$home/audit.jsonl" 2>/dev/null || true
  echo
}

# -- releases --------------------------------------------------------------------------------------------------------

# REFERENCE NAME: pulls an image by digest and tags it.
image_pull() {
  docker pull --quiet "$1"
  docker tag "$1" "$2"
}

# Prints the images, one line each, by a template.
image_list() {
  ids=$(docker images --quiet --no-trunc)
  printf '%s\n' "$ids" | sort -u | xargs -r docker image inspect --format "$1"
}

# RELEASE SUMS: unpacks the release's files, a tar archive on standard input, atomically. tar accepts an archive that was
# cut off between two files: the checksums detect it. They stay beside the files to detect later changes.
release_write() {
  mkdir -p "$home/releases"
  cd "$home/releases"
  rm -rf ".$1.partial"
  mkdir ".$1.partial"
  tar -xpf - -C ".$1.partial"
  printf %s "$2" > ".$1.partial/.sha256"
  (cd ".$1.partial" && sha256sum --check --quiet --strict .sha256 >&2)
  rm -rf "./$1"  # same id with changed content
  mv -T ".$1.partial" "$1"
}

# RELEASE: exits with 0 where its files are unchanged.
release_whole() {
  cd "$home/releases/$1"
  sha256sum --check --quiet --strict .sha256
}

# RELEASE: prints SHA-256 and name of each file.
release_sums() {
  cd "$home/releases/$1" 2>/dev/null || exit 0
  find . -type f ! -name .sha256 -printf '%P\0' | xargs -0r sha256sum --
}

# RELEASE FILE: prints one file.
release_file() {
  cat "$home/releases/$1/$2"
}

# current|previous: prints the target of the link.
release_link() {
  readlink "$home/$1" || true
}

# Prints the ids of all releases, newest first.
release_names() {
  ls -1t "$home/releases" 2>/dev/null || true
}

# Prints releases, newest first: name and base64 of release.json, one per line.
release_list() {
  release_names | while read -r name; do
    printf '%s ' "$name"
    base64 -w 0 "$home/releases/$name/release.json" 2>/dev/null || true
    echo
  done
}

# Prints changed files of all releases as release/file.
release_changes() {
  cd "$home/releases" 2>/dev/null || exit 0
  for name in *; do
    [ -e "$name/.sha256" ] || continue
    (cd "$name" && sha256sum --check --quiet .sha256 2>/dev/null) | sed -n 's/: FAILED.*//p' | sed "s|^|$name/|"
  done
}

# Prints the files of the current release as a base64 tar archive.
release_current() {
  cd "$home/current/" 2>/dev/null || exit 0
  tar -cf - -- * | base64 -w 0
}

# RELEASE EXPECTED [BEFORE]: publishes the release as current, with atomic renames; then removes leftovers.
release_publish() {
  cd "$home"
  if [ -n "${3-}" ]; then
    ln -sfn "releases/$3" .previous.next
    mv -T .previous.next previous
  fi
  mkdir -p -m 0755 state
  rm -f state/.expected.next
  printf %s "$2" > state/.expected.next
  chmod 0644 state/.expected.next
  mv -T state/.expected.next state/expected.json
  ln -sfn "releases/$1" .current.next
  mv -T .current.next current
  # Of interrupted deploys; secrets/.before is an earlier version's.
  rm -rf secrets/.before secrets/.partial releases/.*.partial artefacts/.*.partial
}

state_expected() {
  cat "$home/state/expected.json" 2>/dev/null || true
}

# -- secrets and artefacts -------------------------------------------------------------------------------------------

# Unpacks secrets and their checksums (.sha256), a tar archive on standard input; writes each file atomically.
secrets_write() {
  mkdir -p "$home/secrets"
  cd "$home/secrets"
  chmod 0700 .
  rm -rf .partial
  mkdir .partial
  tar -xf - -C .partial --no-same-permissions
  (cd .partial && sha256sum --check --quiet --strict .sha256 >&2 && rm .sha256)
  chmod 0600 .partial/*
  mv -f .partial/* .
  rmdir .partial
}

# Prints mode, SHA-256 and name of each secret; `-` for one that belongs to a container.
secrets_list() {
  cd "$home/secrets" 2>/dev/null || exit 0
  for name in *; do
    [ -f "$name" ] || continue
    stat -c %a -- "$name"
    if [ -r "$name" ]; then sha256sum -- "$name"; else echo "-  $name"; fi
  done
}

# Prints the names of complete artefacts.
artefact_list() {
  ls -1 "$home/artefacts" 2>/dev/null || true
}

# ARTEFACT: prints SHA-256 and name of the files of an interrupted transfer.
artefact_partial() {
  cd "$home/artefacts/.$1.partial" 2>/dev/null || exit 0
  find . -type f -printf '%P\0' | xargs -0r sha256sum -- || true
}

# ARTEFACT: unpacks its files and the checksums of all (.sha256), a tar archive; makes them read-only.
artefact_write() {
  mkdir -p "$home/artefacts/.$1.partial"
  cd "$home/artefacts"
  rm -f ".$1.partial/.sha256"
  tar -xf - -C ".$1.partial"
  (cd ".$1.partial" && sha256sum --check --quiet --strict .sha256 >&2)
  chmod -R a+rX,a-w ".$1.partial"
  chmod u+w ".$1.partial"  # renaming needs write permission
  mv -T ".$1.partial" "$1"
  chmod u-w "$1"
}

# -- services --------------------------------------------------------------------------------------------------------

# Runs a throw-away container that may change owners and remove what containers wrote, and nothing else.
as_root() {
  docker run --rm --pull never --network none --read-only --user 0:0 --cap-drop ALL --cap-add CHOWN \
    --cap-add DAC_OVERRIDE --security-opt no-new-privileges:true "$@"
}

# FILE VARIABLE: prints a value of an environment file.
value_of() {
  sed -n "s/^$2=//p" "$1"
}

# ENVIRONMENT VARIABLE [WORD]... -- PATH...: gives the paths to the user of the containers, by the environment file.
# The login may not: a throw-away container does it, of the image that the variable names. A release of an earlier
# version names the login as that user. chown changes a directory after all that it holds.
hand_over() {
  image=$(value_of "$1" "$2")
  owner=$(value_of "$1" VOXYARD_UID):$(value_of "$1" VOXYARD_GID)
  shift 2
  paths='' handed=''
  for path do
    shift
    if [ -z "$paths" ]; then
      [ "$path" != -- ] || paths=1
      continue
    fi
    [ "$(stat -c %u:%g "$path")" != "$owner" ] || continue
    handed="$handed /handed/$#"
    set -- "$@" --volume "$(realpath "$path"):/handed/$#"
  done
  # shellcheck disable=SC2086  # these paths are words
  [ -z "$handed" ] || as_root "$@" --entrypoint chown "$image" -hR "$owner" $handed
}

# RELEASE ENVIRONMENT SERVICE VARIABLE [--file FILE]... [-- PATH...]: starts a service in a new container, after the
# paths belong to its user; the variable names its image. Compose detects neither changed files under the same name nor
# unhealthy containers.
service_start() {
  release=$1 environment=$2 service=$3 variable=$4
  shift 4
  [ -d "$home/state" ] || mkdir -m 0755 "$home/state"  # mounts must exist
  cd "$home/releases/$release"
  if [ -n "$variable" ]; then
    mkdir -p "$home/data/$service"
    hand_over "$environment" "$variable" "$@"
  fi
  files=1
  for word do
    shift
    if [ "$word" = -- ]; then files=''; fi
    if [ -n "$files" ]; then set -- "$@" "$word"; fi
  done
  docker compose --project-name voxyard --env-file "$environment" "$@" \
    up --detach --force-recreate --no-build --no-deps --quiet-pull "$service"
}

# RELEASE ENVIRONMENT [--file FILE]...: prints service and Compose configuration hash per line.
service_hashes() {
  cd "$home/releases/$1"
  environment=$2
  shift 2
  docker compose --project-name voxyard --env-file "$environment" "$@" config --hash '*'
}

# Prints the ids of the service containers by a filter; training runs have other projects.
service_ids() {
  docker ps --all --quiet --no-trunc --filter label=com.docker.compose.project=voxyard --filter "label=$1"
}

# SERVICE SECONDS [remove]: stops the containers of a service, with a grace period.
service_stop() {
  ids=$(service_ids "voxyard.role=$1")
  [ -n "$ids" ] || exit 0
  # shellcheck disable=SC2086  # ids are words
  docker stop -t "$2" $ids >/dev/null
  # shellcheck disable=SC2086
  if [ "${3-}" = remove ]; then docker rm $ids >/dev/null; fi
}

# FILTER: prints `docker inspect` of the service containers with this label.
service_inspect() {
  ids=$(service_ids "$1")
  # shellcheck disable=SC2086
  if [ -n "$ids" ]; then docker inspect $ids; else echo '[]'; fi
}

# CONTAINER: prints `die` and `oom` events of the last minutes, with exit codes.
container_deaths() {
  docker events --since 5m --until "$(date +%s.%N)" --filter "container=$1" --filter event=oom --filter event=die \
    --format '{{.Action}} {{index .Actor.Attributes "exitCode"}}'
}

# FORMAT: prints all containers by a template.
container_list() {
  ids=$(docker ps --all --quiet --no-trunc)
  # shellcheck disable=SC2086
  if [ -n "$ids" ]; then docker inspect --format "$1" $ids; fi
}

# METHOD HOST PORT PATH: prints the response of an HTTP request, head and body; needs bash only, not curl.
http_request() {
  # shellcheck disable=SC2016  # the variables are bash's
  bash -c '{ exec 3<>"/dev/tcp/$2/$3"; } 2>/dev/null || { echo "nothing listens on $2:$3" >&2; exit 1; }
    printf "%s %s HTTP/1.0\r\nHost: %s\r\nContent-Length: 0\r\n\r\n" "$1" "$4" "$2" >&3 && cat <&3' bash "$@"
}

# -- pruning ---------------------------------------------------------------------------------------------------------

# Prints images, releases and artefacts named in the files of training runs.
prune_named_by_runs() {
  cd "$home/runs" 2>/dev/null || exit 0
  find . -maxdepth 2 -type f -size -256k -print0 |
    xargs -0r grep -ohE 'voxyard-trainer[:@][a-z0-9:]+|releases/[0-9a-f]{12}|(weights|voices)-[0-9a-f]{12}' |
    sort -u || true
}

# KIND/NAME...: removes releases, secrets, artefacts and images; the engine keeps images in use.
prune_remove() {
  cd "$home"
  failed=0
  for each do
    case $each in
      images/*) docker rmi "${each#images/}" >/dev/null || failed=1 ;;
      artefacts/?*) { chmod -R u+w "$each" && rm -rf "$each"; } || failed=1 ;;
      releases/?* | secrets/?*) rm -rf "$each" || failed=1 ;;
      *) failed=1 ;;
    esac
  done
  exit "$failed"
}

"$@"
