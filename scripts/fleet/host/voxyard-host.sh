#!/bin/sh
# What the fleet's tasks do on a host, as verbs: sh -c "$(cat voxyard-host.sh)" voxyard-host VERB [ARGUMENT]...
# It travels with each exchange that needs it and is not installed: a host never has another version of it.
# shellcheck disable=SC2329  # the last line calls the verbs
set -eu
umask 077
home=${VOXYARD_STATE_DIR:-$HOME/.voxyard}

# -- lock: one change at a time --------------------------------------------------------------------------------------

# Prints a lock file, its time and the time now; nothing where it has just gone.
print_lock() {
  { cat; echo; stat -L -c %Y /dev/stdin; date +%s; } < "$1"
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

# TAG LONGEST END: appends a line of JSON that ends with END; prints "no journal" where neither journal nor syslog took it.
audit_append() {
  mkdir -p "$home"
  cd "$home"
  if [ -n "$(tail -c 1 audit.jsonl 2>/dev/null)" ]; then echo >> audit.jsonl; fi  # a write that was cut off
  line=$(printf '{"at": "%s", %s' "$(date -u +%Y-%m-%dT%H:%M:%SZ)" "$3")
  printf '%s\n' "$line" >> audit.jsonl
  printf '%s\n' "$line" | systemd-cat -t "$1" 2>/dev/null ||
    logger --socket-errors=on --size "$2" -t "$1" -- "$line" 2>/dev/null || echo 'no journal'
}

# ACTIONS: prints the last line of one of the actions, as in deploy|rollback.
audit_last() {
  grep -sE "\"what\": \"($1)\"" "$home/audit.jsonl" | tail -n 1
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
  # Of interrupted deploys.
  rm -rf secrets/.partial releases/.*.partial artefacts/.*.partial
}

# SECONDS: the host is being worked on for so long, by its own clock.
maintenance_begin() {
  mkdir -p "$home/state"
  chmod 0755 "$home/state"
  cd "$home/state"
  rm -f .maintenance.next
  echo "$(($(date +%s) + $1))" > .maintenance.next
  chmod 0644 .maintenance.next
  mv -T .maintenance.next maintenance
}

maintenance_end() {
  rm -f "$home/state/maintenance"
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
# The login may not: a throw-away container does it, of the image that the variable names. A service may have a user of
# its own. chown changes a directory after all that it holds.
hand_over() {
  image=$(value_of "$1" "$2")
  owner=$(value_of "$1" "${2%_IMAGE}_UID"):$(value_of "$1" "${2%_IMAGE}_GID")
  [ "$owner" != : ] || owner=$(value_of "$1" VOXYARD_UID):$(value_of "$1" VOXYARD_GID)
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
    case " $* " in *" ../../data/$service "*) mkdir -p "$home/data/$service" ;; esac
    if [ "$service" = exporter ] && is_mine "$home/data/exporter"; then chmod 0755 "$home/data/exporter"; fi  # the login reads it
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

# SERVICE SECONDS [remove]: stops the containers of a service, with a grace period.
service_stop() {
  ids=$(docker ps --all --quiet --no-trunc --filter label=com.docker.compose.project=voxyard --filter "label=voxyard.role=$1")
  [ -n "$ids" ] || exit 0
  # shellcheck disable=SC2086  # ids are words
  docker stop -t "$2" $ids >/dev/null
  # shellcheck disable=SC2086
  if [ "${3-}" = remove ]; then docker rm $ids >/dev/null; fi
}

# LABEL...: prints `docker inspect` of the containers with all these labels.
container_inspect() {
  for label do
    shift
    set -- "$@" --filter "label=$label"
  done
  for _ in 1 2 3 4 5; do  # a container may be replaced in between
    found=$(docker ps --all --quiet --no-trunc "$@")
    if [ -z "$found" ]; then
      echo '[]'
      exit 0
    fi
    # shellcheck disable=SC2086  # ids are words
    if said=$(docker inspect $found 2>/dev/null); then
      printf '%s\n' "$said"
      exit 0
    fi
    sleep 0.5
  done
  # shellcheck disable=SC2086
  docker inspect $found
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

# METHOD HOST PORT PATH [JSON]: prints the response of an HTTP request, head and body; needs bash only, not curl.
# HTTP/1.0: the server closes the connection at the end and sends no chunks.
http_request() {
  # shellcheck disable=SC2016  # the variables are bash's
  bash -c '{ exec 3<>"/dev/tcp/$2/$3"; } 2>/dev/null || { echo "nothing listens on $2:$3" >&2; exit 1; }
    printf "%s %s HTTP/1.0\r\nHost: %s\r\nContent-Type: application/json\r\nContent-Length: %s\r\n\r\n%s" \
      "$1" "$4" "$2" "${#5}" "$5" >&3 && cat <&3' bash "$@"
}

# METHOD HOST PORT PATH CA NAME: prints the response of an HTTPS request to a service whose certificate is for NAME and
# signed by an authority of the file CA, below ~/.voxyard. To any other it sends nothing.
https_request() {
  command -v openssl >/dev/null || {
    echo 'openssl is not installed: it verifies the certificates of services' >&2
    exit 1
  }
  case $2 in *:*) at="[$2]:$3" ;; *) at=$2:$3 ;; esac
  said=$(printf '%s %s HTTP/1.0\r\nHost: %s\r\nContent-Length: 0\r\n\r\n' "$1" "$4" "$2" |
    openssl s_client -quiet -connect "$at" -CAfile "$home/$5" -verify_return_error -verify_hostname "$6" 2>&1) || true
  body=$(printf '%s\n' "$said" | sed -n '/^HTTP\//,$p')
  if [ -n "$body" ]; then
    printf '%s\n' "$body"
    exit 0
  fi
  reason=$(printf '%s\n' "$said" | sed -n 's/^verify error:num=[0-9]*://p' | head -n 1)
  if [ -n "$reason" ]; then echo "the certificate on $at is not accepted for $6: $reason" >&2; exit 1; fi
  echo "no service answers over TLS on $at: $(printf '%s\n' "$said" | tail -n 1)" >&2
  exit 1
}

# -- configuration files that a service reads anew -------------------------------------------------------------------

# RELEASE SERVICE VERSION: copies the files of a release for its service, readable by any user inside, and points
# `current` to them. Older versions go: a rollback copies from its own release.
config_publish() {
  umask 022
  mkdir -p "$home/config/$2"
  cd "$home/config/$2"
  rm -rf .partial
  cp -r "$home/releases/$1/$2" .partial
  chmod -R u+w,a+rX .partial
  sed -n "s|^\([0-9a-f]*  \)$2/|\1|p" "$home/releases/$1/.sha256" > .partial/.sha256
  (cd .partial && sha256sum --check --quiet --strict .sha256 >&2)
  rm -f loaded
  if [ -e "$3" ]; then mv -T "$3" .replaced; fi  # same name, changed on the host
  mv -T .partial "$3"
  ln -sfn "$3" .current.next
  mv -T .current.next current
  for each in ???????????? .replaced; do [ "$each" = "$3" ] || rm -rf "./$each"; done
}

# SERVICE VERSION: notes that the service works with these files.
config_confirm() {
  printf %s "$2" > "$home/config/$1/loaded"
}

# Prints service and version of the files that each service works with, unless they were changed on the host.
config_list() {
  cd "$home/config" 2>/dev/null || exit 0
  for name in *; do
    version=$(cat "$name/loaded" 2>/dev/null) || continue
    [ "$(readlink "$name/current")" = "$version" ] || continue
    (cd "$name/current" && sha256sum --check --quiet --strict .sha256) >/dev/null 2>&1 || continue
    echo "$name $version"
  done
}

# RELEASE SERVICE IMAGE INSIDE PROGRAM [ARGUMENT]...: checks the files of a release, mounted at INSIDE, with a program of
# the service's image.
config_check() {
  folder=$home/releases/$1/$2 image=$3 inside=$4 program=$5
  shift 5
  docker run --rm --pull never --network none --user "$(id -u):$(id -g)" --read-only --cap-drop ALL \
    --volume "$folder:$inside:ro" --entrypoint "$program" "$image" "$@"
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

# -- training runs ---------------------------------------------------------------------------------------------------

# PLACE FILE...: prints the directory of a release (current or releases/ID), then its files, one base64 line each.
run_release() {
  cd "$home/$1/" 2>/dev/null || {
    echo 'no such release' >&2
    exit 1
  }
  shift
  pwd -P
  for name do
    if [ -e "$name" ]; then base64 -w 0 "$name"; fi
    echo
  done
}

# RUN: true while Compose starts this run. The process id alone may be reused.
starting() {
  grep -qs voxyard-run- "/proc/$(cat "$1/start.pid" 2>/dev/null || echo none)/cmdline"
}

# MANIFEST: prints a line per run: name, manifest and report (base64), newest checkpoint, start state, drained, time.
run_list() {
  cd "$home/runs" 2>/dev/null || exit 0
  for file in */"$1"; do
    [ -e "$file" ] || continue
    run=${file%/*} report=- drained=no
    for last in "$run"/checkpoints/report.json "$run"/checkpoints/host-*/report.json; do  # host-N: not the first of several
      if [ "$last" -nt "$file" ]; then report=$(base64 -w 0 "$last"); break; fi
    done
    # shellcheck disable=SC2012  # names are steps of equal width
    newest=$(ls -1d "$run"/checkpoints/step-* 2>/dev/null | tail -n 1)
    start=$(cat "$run/start.code" 2>/dev/null || true)
    if [ -z "$start" ] && starting "$run"; then start=begun; fi
    if [ -e "$run/drained" ]; then drained=yes; fi
    printf '%s %s %s %s %s %s %s\n' "$run" "$(base64 -w 0 "$file")" "$report" "${newest##*/}-" "${start:--}" \
      "$drained" "$(stat -c %Y "$file")"
  done
}

# LINES: prints id and last log lines (base64) of each training container, one line each.
run_tails() {
  for id in $(docker ps -aq --no-trunc --filter label=voxyard.run --filter label=voxyard.role=trainer); do
    printf '%s %s\n' "$id" "$(docker logs --tail "$1" "$id" 2>&1 | base64 -w 0)"
  done
}

# RUN SUMS [again]: unpacks a run's files, a tar archive on standard input: a new directory atomically, or again, file by
# file. Exits with 73 where a new run has the name of an existing one.
run_write() {
  mkdir -p "$home/runs"
  cd "$home/runs"
  if [ -z "${3-}" ] && [ -e "$1" ]; then exit 73; fi
  rm -rf ".$1.partial"
  mkdir ".$1.partial"
  tar -xpmf - -C ".$1.partial"  # with the current time: compared with the time of reports
  printf %s "$2" | (cd ".$1.partial" && sha256sum --check --quiet --strict -)
  if [ -n "${3-}" ]; then
    mv -f ".$1.partial"/* "$1/"
    rmdir ".$1.partial"
  else
    mkdir ".$1.partial/checkpoints" ".$1.partial/logs"
    mv -T ".$1.partial" "$1"
  fi
}

# RUN: prints its files as a base64 tar archive.
run_files() {
  cd "$home/runs/$1"
  find . -maxdepth 1 -type f -size -256k ! -name 'start.*' ! -name drained -printf '%P\n' |
    tar -cf - -T - | base64 -w 0
}

# RUN: saves the container logs of the run in the logs/ of its directory, which is this one.
save_logs() {
  code=0
  for id in $(docker ps -aq --filter "label=voxyard.run=$1"); do
    name=$(docker inspect --format '{{index .Config.Labels "voxyard.role"}}-{{.State.StartedAt}}' "$id")
    name=$(printf %s "$name" | tr -c A-Za-z0-9- _)
    if docker logs "$id" > "logs/.$name.part" 2>&1; then mv "logs/.$name.part" "logs/$name.log"; else code=1; fi
  done
  return "$code"
}

# RUN: saves its logs, one file per start.
run_keep_logs() {
  cd "$home/runs/$1"
  mkdir -p logs
  save_logs "$1"
}

# PATH: true where it belongs to the login.
is_mine() {
  [ "$(stat -c %u "$1")" = "$(id -u)" ]
}

# RUN ENVIRONMENT [--file FILE]... [--no-deps] -- CORPUS...: starts a run and keeps earlier logs; Compose writes start.log
# and its exit code to start.code. Before that the containers' user can read the corpora, write shards beside the first,
# and owns the checkpoints. Compose waits until the corpus is prepared, in the background: it continues without the
# connection.
run_start() {
  run=$1 environment=$2
  shift 2
  cd "$home/runs/$run"
  mkdir -p checkpoints logs
  if is_mine checkpoints; then chmod 0755 checkpoints; fi  # the login reads them afterwards
  files=1 first='' dependencies=''
  for word do
    shift
    if [ -z "$files" ]; then
      find "../../corpora/$word" -user "$(id -u)" ! -perm -o=r -exec chmod go+rX {} +
      first=${first:-../../corpora/$word}
    elif [ "$word" = -- ]; then
      files=''
    elif [ "$word" = --no-deps ]; then
      dependencies=$word
    else
      set -- "$@" "$word"
    fi
  done
  if is_mine "$first"; then chmod 0777 "$first"; fi
  hand_over "$environment" VOXYARD_TRAINER_IMAGE -- checkpoints
  rm -f start.code start.pid
  save_logs "$run" || true
  # shellcheck disable=SC2016,SC2086  # the variables are the shell's that stays; nothing, or one word
  setsid nohup sh -c 'echo $$ >.start.pid; mv .start.pid start.pid; "$@" >start.log 2>&1; echo $? >.code; mv .code start.code' \
    sh docker compose --project-name "voxyard-run-$run" --env-file "$environment" "$@" \
    up --detach --force-recreate --no-build $dependencies --quiet-pull train </dev/null >/dev/null 2>&1 &
  tries=50  # ten seconds: a busy host takes its time to start a process
  while [ "$tries" -gt 0 ]; do
    [ ! -e start.pid ] || exit 0
    sleep 0.2
    tries=$((tries - 1))
  done
  echo 'the start did not begin within 10 s' >&2
  exit 1
}

# RUN: prints the output of Compose at its start.
run_start_log() {
  tail -n 15 "$home/runs/$1/start.log" 2>/dev/null || true
}

# RUN SECONDS: stops its containers, with a grace period for the checkpoint. A Compose that still waits for the corpus is
# stopped first, so that it starts nothing afterwards.
run_stop() {
  cd "$home/runs"
  if starting "$1"; then kill -s TERM -- "-$(cat "$1/start.pid")" || true; fi
  for _ in 1 2 3 4 5 6 7 8 9 10; do
    if starting "$1"; then sleep 0.5; else break; fi
  done
  ids=$(docker ps -q --filter "label=com.docker.compose.project=voxyard-run-$1")
  # shellcheck disable=SC2086
  if [ -n "$ids" ]; then docker stop -t "$2" $ids >/dev/null; fi
}

# RUN IMAGE: makes its checkpoints readable for the login: a throw-away container does it as their owner.
run_make_readable() {
  cd "$home/runs/$1/checkpoints"
  [ -n "$(find . ! -readable -print -quit)" ] || exit 0
  docker run --rm --pull never --network none --read-only --cap-drop ALL --security-opt no-new-privileges:true \
    --user "$(stat -c %u:%g .)" --volume "$PWD:/checkpoints" --entrypoint chmod "$2" -R go+rX /checkpoints
}

# RUN: marks it as drained: to be resumed after the deployment.
run_mark_drained() {
  : > "$home/runs/$1/drained"
}

run_unmark_drained() {
  rm -f "$home/runs/$1/drained"
}

# OPTION VALUE [--filter FILTER]...: prints the logs of the containers, with timestamps and one option of `docker logs`.
container_logs() {
  option=$1 value=$2
  shift 2
  for id in $(docker ps -aq "$@"); do
    docker logs --timestamps "$option" "$value" "$id" 2>&1
  done
}

# -- corpora ---------------------------------------------------------------------------------------------------------

# CORPUS/VERSION/SHARDS: exits with 0 where these shards exist.
corpus_has() {
  test -d "$home/corpora/$1"
}

# CORPUS VERSION: prints `whole` where it is present, and `beside:ID` for the newest other version.
corpus_inspect() {
  mkdir -p "$home/corpora/$1"
  cd "$home/corpora/$1"
  if [ -d "$2/source" ]; then echo whole; fi
  # shellcheck disable=SC2012  # the newest first; names are ids
  ls -1t | while read -r other; do
    if [ -d "$other/source" ]; then
      echo "beside:$other"
      break
    fi
  done
}

# CORPUS VERSION: renames the complete transfer to its final name, replacing changed content and its shards.
corpus_install() {
  cd "$home/corpora/$1"
  rm -rf ".$2.partial/.rsync-partial"
  mkdir -p "$2"
  rm -rf ".$2.replaced"
  if [ -e "$2/source" ]; then
    mv -T "$2/source" ".$2.replaced"
    rm -rf "$2"/shards-* 2>/dev/null || drop_shards "$2"
  fi
  mv -T ".$2.partial" "$2/source"
  rm -rf ".$2.replaced"
}

# VERSION: removes the shards of a corpus, which a container wrote; one of the trainer's removes them.
drop_shards() {
  image=$(docker image ls --format '{{.Repository}} {{.ID}}' | grep -E '(^|/)voxyard-trainer ' | head -n 1)
  as_root --volume "$PWD/$1:/corpus" --entrypoint sh "${image#* }" -c 'rm -rf /corpus/shards-*'
}

# -- proofs ----------------------------------------------------------------------------------------------------------

# PROOF SCRATCH SERVICE [NAME=VALUE]... [--file FILE]...: unpacks the archive of standard input and starts the container
# with these variables; it goes on without the connection.
proof_begin() {
  umask 022  # the container is another user; ~/.voxyard is the login's alone
  proof=$1 scratch=$2 service=$3
  shift 3
  while [ "${1#*=}" != "$1" ]; do
    export "${1?}"
    shift
  done
  mkdir -p "$home/proofs"
  cd "$home/proofs"
  mkdir "$proof"
  cd "$proof"
  tar -xf -
  mkdir -m 0777 report "$scratch"  # a tmpfs takes the mode of the folder below it
  name=voxyard-proof-$proof
  # shellcheck disable=SC2016  # the variables are the shell's that stays
  setsid nohup sh -c 'echo $$ >pid; "$@" >report/proof.log 2>&1; echo $? >.code; mv .code code' \
    sh docker compose --project-name "$name" "$@" run --rm --no-TTY --name "$name" "$service" \
    </dev/null >/dev/null 2>&1 &
}

# PROOF: prints the exit code of the container once it has ended, or `gone` where its shell ended without one.
proof_state() {
  cd "$home/proofs/$1" 2>/dev/null || exit 0
  if cat code 2>/dev/null; then exit 0; fi
  pid=$(cat pid 2>/dev/null) || exit 0  # it is only just starting
  grep -aqs "voxyard-proof-$1" "/proc/$pid/cmdline" || cat code 2>/dev/null || echo gone
}

# PROOF: prints the report's folder as a base64 tar archive.
proof_report() {
  cd "$home/proofs/$1/report"
  tar -cf - . | base64 -w 0
}

# IMAGE FOLDER: removes the files of a report, which belong to the container's user.
empty_report() {
  as_root --volume "$PWD/$2:/report" --entrypoint find "$1" /report -mindepth 1 -delete
}

# PROOF IMAGE: ends the container and removes the files of the proof.
proof_remove() {
  docker rm --force "voxyard-proof-$1" >/dev/null 2>&1 || true
  cd "$home/proofs/$1" 2>/dev/null || exit 0
  empty_report "$2" report || true
  rm -rf "$home/proofs/$1" || { sleep 1; rm -rf "$home/proofs/$1"; }  # its shell may have been writing the exit code
}

# IMAGE: ends containers and removes files of proofs whose connection was cut: who holds the lock is the only one.
proof_remove_left_over() {
  ids=$(docker ps --all --quiet --filter 'name=^voxyard-proof-')
  # shellcheck disable=SC2086
  [ -z "$ids" ] || docker rm --force $ids >/dev/null
  [ -e "$home/proofs" ] || exit 0
  cd "$home/proofs"
  for report in */report; do
    [ -e "$report" ] || continue
    empty_report "$1" "$report" || true
  done
  rm -rf -- *
}

# -- provisioning ----------------------------------------------------------------------------------------------------

# COMMAND: runs it as root: by sudo where the login is not, which takes its password, where it asks, from standard input.
provision_step() {
  set -- env DEBIAN_FRONTEND=noninteractive LC_ALL=C sh -c "exec </dev/null; $1"
  if [ "$(id -u)" != 0 ]; then set -- sudo -S -p '' -- "$@"; fi
  "$@"
}

# Prints how the login becomes root: root, sudo, or password; and apt, where packages are Debian's.
fact_rights() {
  if [ "$(id -u)" = 0 ]; then
    echo root
  elif command -v sudo >/dev/null; then
    if said=$(sudo -n true 2>&1); then
      echo sudo
    else
      case $said in *tty*) echo terminal ;; *) echo password ;; esac
    fi
  fi
  if command -v apt-get >/dev/null; then echo apt; fi
}

# -- facts about the host --------------------------------------------------------------------------------------------

fact_login() {
  id -u
  printf '%s\n%s\n' "$HOME" "${SSH_CONNECTION-}"
}

# PATH: prints it, or the next directory above it that is there.
nearest() {
  above=$1
  while [ -n "$above" ] && [ ! -e "$above" ]; do above=${above%/*}; done
  printf '%s\n' "${above:-/}"
}

# Prints the directory of the state, the one that is there of it and those above, whether files can be made in it, and
# what tells it from that of another host: boot, device, inode, time, file system.
fact_state() {
  at=$(nearest "$home") can='not writable'
  if [ -d "$at" ] && [ -w "$at" ] && [ -x "$at" ]; then can=writable; fi
  printf '%s\n%s\n%s\n' "$home" "$at" "$can"
  cat /proc/sys/kernel/random/boot_id
  stat -L -c '%d %i %.9Z' -- "$at"
  df -PT -- "$at" | tail -n 1
}

fact_ports() {
  cat /proc/net/tcp
  cat /proc/net/tcp6 2>/dev/null || true
}

fact_docker() {
  docker version --format '{{json .}}'
  docker info --format '{{json .}}'
  command -v docker
  docker context inspect --format '{{.Endpoints.docker.Host}}' 2>/dev/null || true
}

# ADDRESS PORT: prints whether a connection from this host is open, refused, silent, or there is none.
fact_reach() {
  code=0
  # shellcheck disable=SC2016  # the variables are bash's
  said=$(timeout -k 1 5 bash -c 'exec 3<>"/dev/tcp/$1/$2"' bash "$1" "$2" 2>&1) || code=$?
  case "$code $said" in
    0*) echo open ;;
    124* | *'timed out'*) echo silent ;;
    *refused*) echo refused ;;
    *) echo none ;;
  esac
}

# Prints what of the container toolkit is there: hook, runtime, cdi, links.
fact_toolkit() {
  PATH=$PATH:/usr/sbin:/usr/local/sbin
  if command -v nvidia-container-runtime-hook >/dev/null; then echo hook; fi
  # shellcheck disable=SC2016  # the variables are the template's
  runtimes=$(docker info --format '{{range $name, $_ := .Runtimes}}{{$name}} {{end}}' 2>/dev/null || true)
  case " $runtimes " in *' nvidia '*) echo runtime ;; esac
  set -- /etc/cdi/*.yaml /etc/cdi/*.json /var/run/cdi/*.yaml /var/run/cdi/*.json
  if grep -qs nvidia.com/gpu "$@"; then echo cdi; fi
  if [ -e /dev/char/195:255 ]; then echo links; fi
}

# PATH: prints the file system that it is on, its blocks, then its inodes.
file_system() {
  df -Pk -- "$1"
  df -Pi -- "$1" 2>/dev/null || true
}

# Prints the file system of the engine's images. Those that the engine leaves to containerd are in a directory of that.
fact_disk() {
  root=$(docker info --format '{{.DockerRootDir}}')
  said=$(docker info --format '{{json .}}' 2>/dev/null || true)
  case $said in
    *'"io.containerd.snapshotter'*'"Address":"'*docker/containerd/*) root=$root/containerd/daemon ;;  # of the engine's own
    *'"io.containerd.snapshotter'*)
      root=$({ containerd config dump || cat /etc/containerd/config.toml; } 2>/dev/null |
        sed -n "s/^root *= *[\"']\(.*\)[\"'].*/\1/p" | head -n 1)
      root=${root:-/var/lib/containerd}
      ;;
  esac
  file_system "$(nearest "$root")"
}

fact_home_disk() {
  file_system "$(nearest "$home")"
}

# Prints KiB of the artefacts.
fact_kept() {
  if cd "$home/artefacts" 2>/dev/null; then du -sk . | cut -f 1; else echo 0; fi
}

# PROGRAM...: prints those that are there; BusyBox's checksums and archives know too few options.
fact_programs() {
  for each do
    at=$(command -v "$each") || continue
    case "$each $(readlink -f "$at" || true)" in sha256sum\ */busybox* | tar\ */busybox*) continue ;; esac
    echo "$each"
  done
}

# Prints the engine's memlock limit and capabilities.
fact_engine_limits() {
  for each in /proc/[0-9]*; do
    read -r name 2>/dev/null <"$each/comm" || continue
    [ "$name" = dockerd ] || continue
    while read -r max locked memory _ hard _; do
      if [ "$max $locked $memory" = 'Max locked memory' ]; then echo "$hard"; fi
    done 2>/dev/null <"$each/limits" || true
    while read -r key value; do
      if [ "$key" = CapEff: ]; then echo "$value"; fi
    done 2>/dev/null <"$each/status" || true
    break
  done
}

# WORD...: nvidia-smi, of which the exit code for a corrupted infoROM is a warning.
smi() {
  nvidia-smi "$@" --format=csv,noheader,nounits || [ $? = 14 ]
}

# Prints the number of NVIDIA's graphics cards on the PCI bus.
fact_gpu_cards() {
  count=0
  for at in /sys/bus/pci/devices/*; do
    if grep -qsx 0x10de "$at/vendor" && grep -qs '^0x03' "$at/class"; then count=$((count + 1)); fi
  done
  echo "$count"
}

# FIELDS OLD_FIELDS: asks nvidia-smi for the fields, by their older names where it does not know them.
fact_gpu_clocks() {
  if found=$(smi "--query-gpu=$1"); then
    printf '%s\n' "$found"
  else
    nvidia-smi "--query-gpu=$2" --format=csv,noheader,nounits
  fi
}

# Prints GPU processes with user and cgroups, by tabs.
fact_gpu_processes() {
  query=--query-compute-apps=gpu_uuid,pid,used_memory,process_name
  found=$(smi "$query") || {
    printf '%s\n' "$found"
    exit 1
  }
  printf '%s\n' "$found" | while IFS= read -r line; do
    [ -n "$line" ] || continue
    rest=${line#*,}
    pid=$(printf %s "${rest%%,*}" | tr -d ' ')
    user=$(stat -c %U "/proc/$pid" 2>/dev/null || true)
    groups=$(tr '\n' ' ' 2>/dev/null <"/proc/$pid/cgroup" || true)
    printf '%s\t%s\t%s\n' "$line" "$user" "$groups"
  done
}

# Prints the host's uptime and the newest Xid lines of the kernel log.
fact_xids() {
  read -r up _ </proc/uptime
  echo "$up"
  if dmesg >/dev/null 2>&1; then
    log=dmesg
  elif journalctl -kqb -n 1 2>/dev/null | grep -q .; then
    log='journalctl -kqb -o short-monotonic'
  else
    echo 'this user may not read the kernel log' >&2
    exit 1
  fi
  $log | grep -F 'NVRM: Xid' | tail -n 200
}

# Prints the marks of sick GPUs, which the exporter leaves.
fact_out_of_work() {
  file=$home/data/exporter/out_of_work.json
  if [ -e "$file" ]; then cat "$file"; else echo '{"gpus": []}'; fi
}

# Prints the number of NUMA nodes that have processors, then address and node of each GPU.
fact_numa() {
  cat /sys/devices/system/node/node[0-9]*/cpulist 2>/dev/null | grep -c . || true
  for gpu in $(nvidia-smi --query-gpu=pci.bus_id --format=csv,noheader,nounits 2>/dev/null || true); do
    at=$(printf %s "${gpu#????}" | tr A-F a-f)
    if read -r node 2>/dev/null <"/sys/bus/pci/devices/$at/numa_node"; then echo "$at $node"; fi
  done
}

# REPOSITORY: prints the newest image of the repository.
newest_image() {
  docker image ls --format '{{.Repository}} {{.ID}}' | grep -E "(^|/)$1 " | head -n 1 | cut -d ' ' -f 2
}

# SECONDS WORD...: runs the words, of `docker run`, in a container that ends in time; prints exit code and output.
try_container() {
  seconds=$1 name=voxyard-check-$$ code=0
  shift
  said=$(timeout -k 5 "$seconds" docker run --name "$name" "$@" 2>&1) || code=$?
  [ "$code" != 124 ] || docker rm --force "$name" >/dev/null 2>&1 || true
  printf '%s\n%s\n' "$code" "$said"
}

# REPOSITORY SECONDS WORD...: runs the words, of `docker run`, with the newest image of the repository, else the smallest;
# prints the image, `own` for one of the repository, exit code and output.
fact_gpu_start() {
  own=$(newest_image "$1") seconds=$2
  shift 2
  image=$own
  if [ -z "$image" ]; then
    image=$(docker image ls -q | sort -u | xargs -r docker image inspect --format '{{.Size}} {{slice .Id 7 19}}' |
      sort -n | head -n 1 | cut -d ' ' -f 2)
  fi
  [ -n "$image" ] || exit 0
  printf '%s\n%s\n' "$image" "${own:+own}"
  try_container "$seconds" "$@" "$image" -L
}

# REPOSITORY SECONDS MODULE WORD...: runs a module of Python with the words, of `docker run`, in the newest image of the
# repository; it reads standard input. Prints the image, exit code and output; nothing without an image.
fact_in_container() {
  image=$(newest_image "$1") seconds=$2 module=$3
  shift 3
  [ -n "$image" ] || exit 0
  echo "$image"
  try_container "$seconds" "$@" "$image" -m "$module"
}

"$@"
