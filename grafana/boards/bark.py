"""Bark dashboard: synthesis throughput, queue, failures, speech service."""

from __future__ import annotations

from grafana_foundation_sdk.models import dashboard as models

from boards import layout
from boards.panels import AMBER, GREEN, RED, Level, Query, Row, stat_panel, states, time_series
from boards.queries import JOBS, assigned, chunks, gpu, host, increase, mean, quantile, rate

_HOST = "{{instance}}"
_GPU = "{{instance}} GPU {{gpu}}"
_GIVEN_UP = 'outcome=~"failed|silenced"'
_BARK = 'workload="bark"'


def bark() -> models.Dashboard:
    """Bark pools and speech services of the selected hosts."""
    return layout.build_dashboard(
        layout.BARK,
        "Bark pools and the speech service: throughput, latency, queue, failures.",
        [_overview(), _objectives(), _speech(), _queue(), _gpus(), _service(), _cells()],
        {
            "job": JOBS,
            "instance": 'label_values(voxyard_bark_workers_expected{cluster=~"$cluster",job=~"$job"}, instance)',
            "gpu": f"label_values({host('bark_chunks_total')}, gpu)",
        },
    )


def _overview() -> Row:
    total = f"sum({chunks('voxyard:bark_chunks:increase15m')})"
    return Row("At a glance", (
        stat_panel(
            "Real-time factor",
            "Seconds of work for a second of sound, over 5 minutes, of the slowest GPU: below 1 is faster than real "
            "time. No data while no sound is made.",
            "none", Query(f"max({gpu('voxyard:bark_real_time_factor:ratio5m')})"), Level(1, RED), decimals=2,
        ),
        stat_panel(
            "Speech", "Seconds of sound made per second by all pools, over 5 minutes.", "short",
            Query(f"sum({gpu('voxyard:bark_audio_seconds:rate5m')})"), decimals=2,
        ),
        stat_panel(
            "Waiting chunks", "Chunks that wait for a worker.", "none", Query(f"sum({host('bark_queue_depth')})"),
        ),
        stat_panel("Workers", "Workers that have their model loaded.", "none", Query(f"sum({host('bark_workers')})")),
        stat_panel(
            "Chunks in 15 minutes", "Chunks that ended, successful or not.", "none", Query(total), decimals=0,
        ),
        stat_panel(
            "Failed chunks",
            "Share of the last 15 minutes' chunks that failed on every worker or became silence; of the worst host.",
            "percentunit", Query(_given_up()),
            Level(0.01, AMBER), Level(0.05, RED), decimals=1,
        ),
    ))  # fmt: skip


def _objectives() -> Row:
    name = f"{_HOST} {{{{objective}}}}"
    return Row("Objectives", (
        time_series(
            "Error budgets",
            "What is left of the share that may be bad in 30 days: late first sounds, streams that their listeners "
            "outrun, documents that fail. Below 0 the objective is missed.",
            "percentunit", Query(host("voxyard:objective_budget_left:ratio30d"), name),
        ),
        time_series(
            "Budgets burn, over an hour",
            "How many times as fast as allowed. The alerts …BudgetBurns fire above 14.4, for 5 minutes of it too.",
            "none", Query(host("voxyard:objective_burn:rate1h"), name),
        ),
        time_series(
            "Budgets burn, over 6 hours",
            "How many times as fast as allowed. The alerts …BudgetBurns fire above 6, for half an hour of it too.",
            "none", Query(host("voxyard:objective_burn:rate6h"), name),
        ),
        time_series(
            "Underruns", "Seconds that the listener of a stream waited after the first sound: all sent was heard.", "s",
            *_times("service_stream_underrun_seconds"),
        ),
        time_series(
            "Documents that end", "In each step, by how; refused: their own text or file is at fault.", "none",
            Query(
                f"sum by (instance, outcome) ({increase(host('service_documents_ended_total'))})",
                f"{_HOST} {{{{outcome}}}}",
            ),
        ),
    ))  # fmt: skip


def _given_up() -> str:
    ended = f"sum by (instance) ({chunks('voxyard:bark_chunks:increase15m')})"
    failed = f"sum by (instance) ({chunks('voxyard:bark_chunks:increase15m', _GIVEN_UP)})"
    # An outcome has no series before its first chunk: with chunks but no failures the value is 0.
    return f"max(({failed} or 0 * {ended}) / ({ended} > 0))"


def _speech() -> Row:
    return Row("Speech", (
        time_series(
            "Real-time factor",
            "Seconds of work for a second of sound, by GPU. BarkSlowerThanRealTime fires above 1.",
            "none", Query(gpu("voxyard:bark_real_time_factor:ratio5m"), _GPU),
        ),
        time_series(
            "Speech made", "Seconds of sound made per second, by GPU.", "short",
            Query(rate(gpu("bark_audio_seconds_total")), _GPU),
        ),
        time_series(
            "Busy time",
            "Seconds of synthesis per second, by GPU: 1 is a worker that is never idle.",
            "short", Query(rate(gpu("bark_synthesis_seconds_total")), _GPU),
        ),
        time_series(
            "Chunks by outcome",
            "Per second. A chunk that failed or became silence was given to several workers, so it names no GPU.",
            "ops",
            Query(f"sum by (instance, outcome) ({rate(chunks('bark_chunks_total'))})", "{{instance}} {{outcome}}"),
        ),
        time_series(
            "Failures by reason",
            "Failures of batches and workers, per second. Their chunks are tried again.",
            "ops",
            Query(
                f"sum by (instance, gpu, reason) ({rate(chunks('bark_chunk_failures_total'))})",
                f"{_GPU} {{{{reason}}}}",
            ),
        ),
        time_series(
            "Speech that fails its check",
            "Chunks per second in which the engine's own check found a fault after all retries, by the first fault. "
            "BarkSpeechFaulty fires above 30% of a worker's.",
            "ops",
            Query(
                f"sum by (instance, gpu, model, fault) ({rate(chunks('bark_faulty_chunks_total'))})",
                f"{_GPU} {{{{model}}}} {{{{fault}}}}",
            ),
        ),
        time_series(
            "Failures since start",
            "Failures since each pool started: shows the first failure of a reason at once.",
            "none",
            Query(f"sum by (instance, gpu, reason) ({chunks('bark_chunk_failures_total')})", f"{_GPU} {{{{reason}}}}"),
        ),
    ))  # fmt: skip


def _queue() -> Row:
    return Row("Queue and latency", (
        time_series("Waiting chunks", "Chunks that wait for a worker, by host.", "none",
              Query(host("bark_queue_depth"), _HOST)),
        time_series(
            "Workers",
            "Workers that the pool may start: with their model loaded, at work, released for want of work, waiting.",
            "none",
            Query(host("bark_workers_expected"), f"{_HOST} may be"),
            Query(host("bark_workers"), f"{_HOST} loaded"),
            Query(host("bark_workers_busy"), f"{_HOST} speaking"),
            Query(host("bark_workers_released"), f"{_HOST} released"),
            Query(f"sum by (instance, reason) ({host('bark_worker_waiting')})", f"{_HOST} waiting: {{{{reason}}}}"),
        ),
        time_series(
            "Time to first sound",
            "From a listener's request to the first audible sample; silence at the beginning counts as waiting.", "s",
            *_times("bark_time_to_first_audio_seconds"),
        ),
        time_series("Wait of a chunk", "Time until a worker takes it.", "s", *_times("bark_queue_wait_seconds")),
        time_series("Synthesis of a chunk", "From its start on a worker to its sound.", "s",
              *_times("bark_chunk_duration_seconds")),
        time_series("Batch size", "Chunks that a worker decodes together, on average.", "none",
              Query(mean("instance", "bark_batch_size"), _HOST)),
    ))  # fmt: skip


def _times(histogram: str) -> tuple[Query, ...]:
    return (
        Query(quantile(0.5, "instance", histogram), f"{_HOST} median"),
        Query(quantile(0.95, "instance", histogram), f"{_HOST} 95 %"),
        Query(mean("instance", histogram), f"{_HOST} mean"),
    )


def _gpus() -> Row:
    return Row("GPUs of the pools", (
        time_series(
            "Utilization",
            "Of the GPUs assigned to a pool, over 5 minutes, with the lowest expected while chunks wait. A pool "
            "on CPUs has none.",
            "percentunit",
            Query(assigned(gpu("voxyard:gpu_utilization:ratio"), _BARK), _GPU),
            Query(gpu("workload_gpu_utilization_target_ratio", _BARK), f"{_GPU} target"),
            top=1,
        ),
        time_series(
            "Memory used", "Of the GPUs assigned to a pool.", "percentunit",
            Query(assigned(gpu("voxyard:gpu_memory_used:ratio"), _BARK), _GPU), top=1,
        ),
    ))  # fmt: skip


def _service() -> Row:
    return Row("Speech service", (
        time_series(
            "Requests by status", "Per second; 499: the client disconnected before the answer.", "reqps",
            Query(
                f"sum by (instance, status) ({rate(host('service_requests_total'))})", "{{instance}} {{status}}"
            ),
        ),
        time_series(
            "Requests by route", "Per second.", "reqps",
            Query(
                f"sum by (route, method) ({rate(host('service_requests_total'))})", "{{method}} {{route}}"
            ),
        ),
        time_series(
            "Duration of requests", "From a request's headers to the end of its answer; of a stream, to its end.",
            "s",
            Query(quantile(0.5, "route", "service_request_duration_seconds"), "{{route}} median"),
            Query(quantile(0.95, "route", "service_request_duration_seconds"), "{{route}} 95 %"),
            logarithmic=True,
        ),
        time_series("Requests in flight", "Requests being answered, open streams included.", "none",
              Query(host("service_in_flight"), _HOST)),
        time_series("Documents", "By their state.", "none", Query(host("service_documents"), "{{instance}} {{state}}")),
        time_series(
            "Disk space of the sound", "Stored sound of documents, and its quota.", "bytes",
            Query(host("service_audio_bytes"), f"{_HOST} kept"),
            Query(host("service_audio_quota_bytes"), f"{_HOST} quota"),
        ),
    ))  # fmt: skip


def _cells() -> Row:
    return Row("Cells and clusters", (
        states(
            "Database of shared documents",
            "Whether it answers each service that shares its documents. No data where documents are a host's own.",
            "none", Query(host("service_store_up"), _HOST), {0: ("away", RED), 1: ("answers", GREEN)},
        ),
        time_series(
            "Time of the shared database",
            "What a transaction takes in the mean. StoreSlow fires over 0.25 s, while documents wait for it.", "s",
            Query(
                f"{rate(host('service_store_seconds_total'))} / {rate(host('service_store_transactions_total'))}", _HOST
            ),
        ),
        states(
            "Place of the audio", "Whether the directory or the bucket of documents' audio answers each service.",
            "none", Query(host("service_shelf_up"), _HOST), {0: ("away", RED), 1: ("answers", GREEN)},
        ),
        states(
            "Nodes of a cluster", "Whether head and hosts of a Ray cluster run. No data where a pool is a host's own.",
            "none", Query(host("cluster_node_up"), "{{instance}} {{role}}"), {0: ("down", RED), 1: ("up", GREEN)},
        ),
        time_series(
            "Claims", "Shared documents that each service has: at most `service.active_documents`.", "none",
            Query(host("service_claims"), _HOST),
        ),
        time_series(
            "Documents taken over",
            "By the host whose claims had run out, in each step: it died, hung, or was cut off. ClaimsRunOut fires "
            "where that does not end.",
            "none",
            Query(f"sum by (owner) ({increase(host('service_claims_ran_out_total'))})", "{{owner}}"),
        ),
        time_series(
            "Room for audio", "What further audio may take, by quota and disk. ShelfFull fires below 5 % of the quota.",
            "bytes", Query(host("service_audio_free_bytes"), _HOST),
        ),
    ))  # fmt: skip
