# Trains until the run has ended. SIGTERM (time limit, preemption, a drained node) stops it after a checkpoint; then the
# job goes back into the queue, unless Slurm itself is ending or requeueing it, and continues from that checkpoint.
set -u
if [ ! -f train.yaml ]; then
  echo "no train.yaml in $PWD: submit with sbatch --chdir=DIR DIR/run.sbatch" >&2
  exit 2
fi
mkdir -p checkpoints || exit
export VOXYARD_TRAIN_CHECKPOINT_DIR="$PWD/checkpoints"

child='' stopped=''
stop() {
  stopped=1
  [ -z "$child" ] || kill -TERM "$child" 2>/dev/null
}
trap stop TERM
# shellcheck disable=SC2154  # train=(…) is written before this text
"${train[@]}" &
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
fi
trap '' TERM

if [ -z "$stopped" ] && [ "$code" = 75 ] && [ "$SECONDS" -ge "${VOXYARD_REQUEUE_AFTER:-300}" ]; then
  stopped=1  # a node was lost; a run that loses one again and again, as soon as it starts, ends
fi
[ -n "$stopped" ] || exit "$code"
case $code in
  0 | 75 | 143) ;;  # a checkpoint was saved, a node was lost, or the signal came before the first step
  *) exit "$code" ;;
esac
state=$(squeue --noheader --jobs "$SLURM_JOB_ID" --format %T)
if [ "$code" = 75 ]; then
  echo "a node of the run was lost, the job is $state"
else
  echo "stopped by SIGTERM, the job is $state"
fi
if [ "$state" = RUNNING ]; then
  exec scontrol requeue "$SLURM_JOB_ID"
fi
exit 143
