# Trains until the run has ended; `voxyard train` has the arguments. SIGTERM stops it after a checkpoint: then the exit
# code is 75, so that the Job starts another pod, which continues from there, and does not count the run as complete.
set -u
child='' stopped=''
stop() {
  stopped=1
  [ -z "$child" ] || kill -TERM "$child" 2>/dev/null
}
trap stop TERM
voxyard train "$@" &
child=$!
[ -z "$stopped" ] || stop
while true; do  # a signal ends `wait` before the trainer has ended
  wait "$child"
  code=$?
  kill -0 "$child" 2>/dev/null || break
done
if [ -n "$stopped" ]; then
  wait "$child"  # what the trainer itself answered
  code=$?
  case $code in 0 | 143) code=75 ;; esac
fi
exit "$code"
