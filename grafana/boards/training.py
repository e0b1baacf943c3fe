"""Training dashboard: throughput, data wait, losses, GPUs."""

from __future__ import annotations

from grafana_foundation_sdk.models import dashboard as models

from boards import layout
from boards.panels import AMBER, GREEN, RED, Column, Level, Query, Row, stat_panel, states, table_panel, time_series
from boards.queries import JOBS, RUN, assigned, gpu, host, mean, quantile, rate, run

_RUN = "{{run}}"
_OF_GPU = "{{instance}} GPU {{gpu}} {{role}}"


def training() -> models.Dashboard:
    """Speed, waits, losses and GPUs of the selected runs."""
    return layout.build_dashboard(
        layout.TRAINING,
        "Training runs: throughput, waits for data, losses, utilization of their GPUs.",
        [_overview(), _speed(), _learning(), _gpus()],
        {
            "job": JOBS,
            "instance": 'label_values(voxyard_train_active{cluster=~"$cluster",job=~"$job"}, instance)',
            "run": f"label_values({host('train_active')}, run)",
            "gpu": f"label_values({host('workload_gpu_assigned', _TRAINER)}, gpu)",
        },
    )


_TRAINER = 'workload="trainer"'


def _overview() -> Row:
    return Row("At a glance", (
        stat_panel(
            "Runs that train", "Runs that report that they train now.", "none",
            Query(f"sum({run('train_active')})"),
        ),
        stat_panel(
            "Speed", "Optimizer updates per second of all selected runs, over 5 minutes.", "ops",
            Query(f"sum({run('voxyard:train_steps:rate5m')})"), decimals=2,
        ),
        stat_panel(
            "Clips", "Clips trained on per second, of all selected runs.", "ops",
            Query(f"sum({run('voxyard:train_samples:rate5m')})"), decimals=1,
        ),
        stat_panel(
            "Waiting for data",
            "Share of a step's time that goes into waiting for its batch; of the run with the longest waits. "
            "TrainingInputBound fires above a half.",
            "percentunit", Query(f"max({run('voxyard:train_data_stall:ratio')})"),
            Level(0.2, AMBER), Level(0.5, RED), decimals=1,
        ),
        stat_panel(
            "Since the latest step",
            "Of the run that trains and has waited longest for it. TrainingStalled fires after 10 minutes.",
            "s",
            Query(
                f"max((time() - {run('train_last_step_timestamp_seconds')}) and on (job, instance, run) "
                f"({run('train_active')} == 1))"
            ),
            Level(60, AMBER), Level(600, RED),
        ),
        stat_panel("Epoch", "Pass over the corpus, from 0; of the most advanced run.", "none",
               Query(f"max({run('train_epoch')})")),
        states(
            "Runs",
            "1 while a run trains, 0 when it has ended. The series of a killed run ends.",
            "none",
            Query(f"max by (instance, run) ({run('train_active')})", "{{instance}} {{run}}"),
            {0: ("ended", "blue"), 1: ("trains", GREEN)},
            width=24,
            height=4,
        ),
    ))  # fmt: skip


def _speed() -> Row:
    return Row("Throughput and waits", (
        time_series(
            "Steps per second", "Optimizer updates.", "ops",
            Query(rate(run("train_steps_total")), _RUN),
        ),
        time_series(
            "Clips per second", "Clips trained on.", "ops",
            Query(rate(run("train_samples_total")), _RUN),
        ),
        time_series(
            "Waiting for data",
            "Share of the steps' time that waiting for a batch takes. At 0 the model GPU never waits, "
            "near 1 it waits most of the time.",
            "percentunit", Query(run("voxyard:train_data_stall:ratio"), _RUN), top=1,
        ),
        time_series(
            "Ring",
            "Batches that wait for the model GPU after a step, and how many there can be. Always full: the model "
            "GPU is the slower side; always empty: the data side is.",
            "none",
            Query(run("train_ring_depth"), f"{_RUN} waiting"), Query(run("train_ring_slots"), f"{_RUN} slots"),
        ),
        time_series(
            "Duration of a step",
            "Including the wait for data. Quantiles are read from buckets, the mean is exact.",
            "s",
            Query(quantile(0.5, "run", "train_step_duration_seconds", RUN), f"{_RUN} median"),
            Query(quantile(0.95, "run", "train_step_duration_seconds", RUN), f"{_RUN} 95 %"),
            Query(mean("run", "train_step_duration_seconds", RUN), f"{_RUN} mean"),
        ),
        time_series(
            "Wait for data",
            "Per step. Quantiles are read from buckets, the mean is exact.",
            "s",
            Query(quantile(0.5, "run", "train_data_wait_seconds", RUN), f"{_RUN} median"),
            Query(quantile(0.95, "run", "train_data_wait_seconds", RUN), f"{_RUN} 95 %"),
            Query(mean("run", "train_data_wait_seconds", RUN), f"{_RUN} mean"),
        ),
        time_series(
            "Variation of step duration",
            "Standard deviation ÷ mean of the last 200 steps' durations, whole and within length buckets. "
            "TrainingStepTimeUnstable fires where the second is above 0.4.",
            "percentunit",
            Query(run("train_step_time_variation_ratio"), _RUN),
            Query(run("train_step_time_variation_within_buckets_ratio"), f"{_RUN} within buckets"),
        ),
        time_series(
            "Duration of a step by its shape",
            "Mean of 10 minutes, without its waits for data; the shape is clips x frames. A quarter longer than before "
            "for half an hour: TrainingSlowerThanBefore.",
            "s", Query(run("voxyard:train_shape_step:mean10m"), f"{_RUN} {{{{shape}}}}"),
        ),
        time_series(
            "Cores that reading takes",
            "Of the reading threads, over 5 minutes, beside the cores that the run may use and the number of threads. "
            "Threads that wait for a disk take few.",
            "none",
            Query(run("voxyard:train_read_cores:rate5m"), f"{_RUN} reading"),
            Query(run("train_cores"), f"{_RUN} cores"),
            Query(run("train_read_threads"), f"{_RUN} threads"),
        ),
        time_series(
            "Data stage waits for reading",
            "Share of 5 minutes in which the data stage waited for the reading threads, and the share of their own "
            "time in which they computed. Where the model waits, reading is late if the data stage waits much, and "
            "else the data stage itself.",
            "percentunit",
            Query(run("voxyard:train_read_wait:ratio5m"), f"{_RUN} waits"),
            Query(run("voxyard:train_read_cpu:ratio5m"), f"{_RUN} threads compute"),
            top=1,
        ),
        time_series(
            "Saving a checkpoint", "Mean time of the checkpoints that were saved in each step of the panel.", "s",
            Query(mean("run", "train_checkpoint_duration_seconds", RUN), _RUN),
        ),
    ))  # fmt: skip


def _learning() -> Row:
    return Row("Losses", (
        time_series(
            "Training loss",
            "By component, of the step before each scrape. A loss that is not finite is a gap here; it ends the run.",
            "none", Query(run("train_loss"), f"{_RUN} {{{{component}}}}"), bottom=None,
        ),
        time_series(
            "Validation loss", "By component, mean over the validation clips.", "none",
            Query(run("train_validation_loss"), f"{_RUN} {{{{component}}}}"), bottom=None,
        ),
        time_series("Learning rate", "Of the latest step.", "sci", Query(run("train_learning_rate"), _RUN)),
        time_series("Epoch", "Pass over the corpus, from 0.", "none", Query(run("train_epoch"), _RUN)),
    ))  # fmt: skip


def _gpus() -> Row:
    def of_trainer(metric: str) -> str:
        return gpu(metric, _TRAINER)

    return Row("GPUs of the runs", (
        time_series(
            "Utilization of the pair",
            "Data GPU and model GPU over 5 minutes, with the lowest expected of each. Which run holds a GPU is "
            "not measured: a trainer holds its GPUs as a host's workload.",
            "percentunit",
            Query(
                assigned(gpu("voxyard:gpu_utilization:ratio"), _TRAINER), _OF_GPU,
            ),
            Query(of_trainer("workload_gpu_utilization_target_ratio"), f"{_OF_GPU} target"),
            top=1,
        ),
        time_series(
            "Memory of the pair",
            "Used, and the allocator's limit. The overhead of context and libraries comes on top of the limit.",
            "bytes",
            Query(assigned(gpu("voxyard:gpu_memory_used:bytes"), _TRAINER), f"{_OF_GPU} used"),
            Query(of_trainer("workload_gpu_memory_limit_bytes"), f"{_OF_GPU} limit"),
        ),
        table_panel(
            "Roles",
            "Which GPU is data GPU and which is model GPU now. A run on CPUs has no row.",
            "none",
            [Query(f"group by (instance, gpu, uuid, role) ({of_trainer('workload_gpu_assigned')} == 1)")],
            {
                "instance": Column("Host"), "gpu": Column("GPU"), "uuid": Column("UUID"), "role": Column("Role"),
            },
            height=5,
        ),
    ))  # fmt: skip
