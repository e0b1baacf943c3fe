"""GPU detail dashboard: all metrics of single GPUs."""

from __future__ import annotations

from grafana_foundation_sdk.models import dashboard as models

from boards import layout
from boards.fleet import UP
from boards.panels import GREEN, Column, Query, Row, states, table_panel, time_series
from boards.queries import assigned, gpu, host, increase, rate

_GPU = "{{instance}} GPU {{gpu}}"
_LIMITED = {0: ("not limited", GREEN), 1: ("limited", "orange")}


def gpu_detail() -> models.Dashboard:
    """Load, memory, power, clocks, links and health of the selected GPUs."""
    return layout.build_dashboard(
        layout.GPU,
        "Load, memory, power, clocks, links and health of single GPUs.",
        [_identity(), _load(), _memory(), _power(), _clocks(), _links(), _health()],
        {
            "job": "label_values(up, job)",
            "instance": f"label_values({_OF_JOB}, instance)",
            "gpu": f"label_values({host('voxyard:gpu_up:bool')}, gpu)",
            "run": f"label_values({host('train_active')}, run)",
        },
    )


_OF_JOB = 'voxyard:gpu_up:bool{job=~"$job"}'


def _identity() -> Row:
    columns = ("instance", "gpu", "uuid", "name", "pci_bus_id", "driver_version", "cuda_version")
    names = ("Host", "GPU", "UUID", "Model", "PCI bus", "Driver", "CUDA")
    return Row("Which GPUs", (
        table_panel(
            "GPUs",
            "The cards as the driver names them.",
            "none",
            [Query(f"group by ({', '.join(columns)}) ({gpu('gpu_info')})")],
            {label: Column(name) for label, name in zip(columns, names, strict=True)},
            width=14,
            height=6,
        ),
        table_panel(
            "Workloads on these GPUs",
            "Workloads that these GPUs are assigned to now. An unassigned GPU has no row.",
            "short",
            [Query(
                f"group by (instance, gpu, workload, role) ({gpu('workload_gpu_assigned')} == 1)",
            )],
            {
                "instance": Column("Host"), "gpu": Column("GPU"), "workload": Column("Workload"),
                "role": Column("Role"),
            },
            width=10,
            height=6,
        ),
    ))  # fmt: skip


def _load() -> Row:
    return Row("Load", (
        time_series(
            "Utilization, over 5 minutes",
            "Share of time in which a kernel ran, from a counter of every sample: no scrape interval can alias it. "
            "Alerts look at this.",
            "percentunit",
            Query(gpu("voxyard:gpu_utilization:ratio"), _GPU),
            width=24,
            top=1,
        ),
        time_series(
            "Utilization, at the scrape interval",
            "Share of time in which a kernel ran, from the same counter over the shortest window that the scrape "
            "interval allows (busy), and over the last second before each scrape (last second), which misses what "
            "happens between scrapes.",
            "percentunit",
            Query(rate(gpu("gpu_busy_seconds_total")), f"{_GPU} busy"),
            Query(gpu("gpu_utilization_ratio"), f"{_GPU} last second"),
            top=1,
        ),
        time_series(
            "Utilization and its target",
            "GPUs assigned to a workload, and the lowest utilization expected in their role.",
            "percentunit",
            Query(assigned(gpu("voxyard:gpu_utilization:ratio")), f"{_GPU} {{{{workload}}}} {{{{role}}}}"),
            Query(gpu("workload_gpu_utilization_target_ratio"), f"{_GPU} {{{{workload}}}} {{{{role}}}} target"),
            top=1,
        ),
        time_series(
            "Memory activity",
            "Share of the driver's last window in which device memory was read or written.",
            "percentunit",
            Query(gpu("gpu_memory_activity_ratio"), _GPU),
            top=1,
        ),
        time_series(
            "Video encoder and decoder",
            "Use of the card's video units. voxyard does not use them: any load is from other programs.",
            "percentunit",
            Query(gpu("gpu_encoder_utilization_ratio"), f"{_GPU} encoder"),
            Query(gpu("gpu_decoder_utilization_ratio"), f"{_GPU} decoder"),
            top=1,
        ),
    ))  # fmt: skip


def _memory() -> Row:
    of_workload = f"{_GPU} {{{{workload}}}} {{{{role}}}}"
    return Row("Memory", (
        time_series(
            "Memory used",
            "Device memory that processes hold, and the memory of the card.",
            "bytes",
            Query(gpu("voxyard:gpu_memory_used:bytes"), f"{_GPU} used"),
            Query(gpu("gpu_memory_size_bytes"), f"{_GPU} size"),
        ),
        time_series(
            "Memory free and reserved",
            "Free memory, and memory reserved by driver and firmware.",
            "bytes",
            Query(gpu("gpu_memory_free_bytes"), f"{_GPU} free"),
            Query(gpu("gpu_memory_reserved_bytes"), f"{_GPU} reserved"),
        ),
        time_series(
            "Memory used and what the workload may use",
            "May use: the allocator's limit and the measured overhead of context and libraries beside it. "
            "GpuMemoryNearLimit fires above that. A workload without a limit has only the first line.",
            "bytes",
            Query(assigned(gpu("voxyard:gpu_memory_used:bytes")), f"{of_workload} used"),
            Query(gpu("workload_gpu_memory_limit_bytes"), f"{of_workload} limit"),
            Query(gpu("workload_gpu_memory_overhead_bytes"), f"{of_workload} overhead"),
        ),
        time_series(
            "Memory by process",
            "Only where the exporter runs with `voxyard exporter --processes`.",
            "bytes",
            Query(gpu("gpu_process_memory_bytes"), f"{_GPU} {{{{process}}}} {{{{pid}}}}"),
        ),
    ))  # fmt: skip


def _power() -> Row:
    return Row("Power and temperature", (
        time_series(
            "Power",
            "Drawn at the moment of the scrape, and on average between scrapes as the card's energy counter tells it.",
            "watt",
            Query(gpu("gpu_power_watts"), f"{_GPU} now"),
            Query(rate(gpu("gpu_energy_joules_total")), f"{_GPU} from energy"),
            Query(gpu("gpu_power_limit_watts"), f"{_GPU} limit"),
        ),
        time_series(
            "Power ÷ limit",
            "Near 1 the card lowers its clocks to stay within the limit.",
            "percentunit",
            Query(gpu("voxyard:gpu_power:ratio"), _GPU),
        ),
        time_series(
            "Temperature",
            "Of the GPU. GpuTemperatureHigh fires above 85 °C.",
            "celsius",
            Query(gpu("voxyard:gpu_temperature:celsius"), _GPU),
        ),
        time_series(
            "Fan speed",
            "Share of the maximum speed. Cards cooled by the host's fans have none.",
            "percentunit",
            Query(gpu("gpu_fan_speed_ratio"), _GPU),
            top=1,
        ),
    ))  # fmt: skip


def _clocks() -> Row:
    return Row("Clocks", (
        time_series(
            "Clocks",
            "Now, of each part of the card.",
            "hertz",
            Query(gpu("gpu_clock_hertz"), f"{_GPU} {{{{clock}}}}"),
        ),
        time_series(
            "Clocks ÷ highest",
            "How much of its highest clock each part runs at.",
            "percentunit",
            Query(
                f"{gpu('gpu_clock_hertz')} / {gpu('gpu_clock_max_hertz')}",
                f"{_GPU} {{{{clock}}}}",
            ),
        ),
        states(
            "Clock throttle reasons",
            "Reasons reported by the driver for lower clocks. gpu_idle and sw_power_cap are harmless; thermal "
            "slowdowns and hw_power_brake have alerts.",
            "none",
            Query(f"max by (instance, gpu, reason) ({gpu('gpu_clock_event_active')})", f"{_GPU} {{{{reason}}}}"),
            _LIMITED,
            width=24,
            height=12,
        ),
    ))  # fmt: skip


def _links() -> Row:
    return Row("Links", (
        time_series(
            "PCIe traffic",
            "Bytes per second over the card's PCIe link, by direction as the card sees it.",
            "Bps",
            Query(rate(gpu("gpu_pcie_bytes_total")), f"{_GPU} {{{{direction}}}}"),
        ),
        time_series(
            "NVLink traffic",
            "Bytes per second over all NVLinks of the card, by direction. Cards without NVLink have none.",
            "Bps",
            Query(rate(gpu("gpu_nvlink_bytes_total")), f"{_GPU} {{{{direction}}}}"),
        ),
        time_series(
            "PCIe lanes",
            "In use, and possible for this card in this slot. Fewer than possible: PcieLinkDowngraded.",
            "none",
            Query(gpu("gpu_pcie_link_width"), f"{_GPU} in use"),
            Query(gpu("gpu_pcie_link_width_max"), f"{_GPU} possible"),
            width=8,
        ),
        time_series(
            "PCIe generation",
            "In use, and possible. It falls when the GPU idles; that is no fault.",
            "none",
            Query(gpu("gpu_pcie_link_generation"), f"{_GPU} in use"),
            Query(gpu("gpu_pcie_link_generation_max"), f"{_GPU} possible"),
            width=8,
        ),
        table_panel(
            "Links between GPUs",
            "As `nvidia-smi topo -m` shows them. A higher rank is a closer link: SYS 1 … PIX 5, NVLink 10 + its lanes.",
            "none",
            [Query(f"max by (instance, gpu, peer, link) ({gpu('gpu_link_rank')})", "rank")],
            {
                "instance": Column("Host"),
                "gpu": Column("GPU"),
                "peer": Column("Other GPU"),
                "link": Column("Link"),
                "rank": Column("Rank", "none"),
            },
            width=8,
            sort="Rank",
        ),
    ))  # fmt: skip


def _health() -> Row:
    return Row("Health", (
        states(
            "Up and lost",
            "Whether the driver answers for the GPU. A lost GPU has no measurements, and stays lost until it is back.",
            "none",
            Query(f"max by (instance, gpu, uuid) ({gpu('voxyard:gpu_up:bool')})", _GPU),
            UP,
        ),
        table_panel(
            "Xid errors",
            "How many the driver reported since the exporter started, and when the latest came. A GPU without any has "
            "no row.",
            "none",
            [
                Query(f"max by (instance, gpu, uuid, xid) ({gpu('gpu_xid_errors_total')})", "count"),
                Query(
                    f"max by (instance, gpu, uuid, xid) ({gpu('gpu_xid_last_timestamp_seconds')}) * 1000", "latest"
                ),
                Query(f"max by (instance, gpu, uuid, xid) ({gpu('voxyard:gpu_xid:age_seconds')})", "age"),
            ],
            {
                "instance": Column("Host"),
                "gpu": Column("GPU"),
                "xid": Column("Xid"),
                "count": Column("Reported", "none"),
                "latest": Column("Latest", "dateTimeAsLocal"),
                "age": Column("Age", "s"),
            },
            width=12,
        ),
        time_series(
            "New ECC errors",
            "In each step of the panel, by kind: corrected ones are harmless while they are few.",
            "none",
            Query(increase(gpu("gpu_ecc_errors_total")), f"{_GPU} {{{{kind}}}}"),
        ),
        table_panel(
            "ECC errors and remapped rows",
            "Volatile: since the driver was loaded. Aggregate: over the card's lifetime. Rows of memory that were "
            "remapped, or are to be (pending), or cannot be (failure).",
            "none",
            [
                Query(f"max by (instance, gpu, uuid, kind) ({gpu('gpu_ecc_errors_total')})", "errors"),
                Query(f"max by (instance, gpu, uuid, kind) ({gpu('gpu_remapped_rows')})", "rows"),
            ],
            {
                "instance": Column("Host"),
                "gpu": Column("GPU"),
                "kind": Column("Kind"),
                "errors": Column("ECC errors", "none"),
                "rows": Column("Rows", "none"),
            },
            width=12,
        ),
    ))  # fmt: skip
