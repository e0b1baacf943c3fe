"""GPU detail dashboard: all metrics of single GPUs."""

from __future__ import annotations

from grafana_foundation_sdk.models import dashboard as models

from boards import layout
from boards.fleet import UP
from boards.panels import AMBER, GREEN, RED, Column, Query, Row, states, table_panel, time_series
from boards.queries import JOBS, assigned, gpu, host, increase, rate
from voxyard.host.xid_catalog import CATALOG

_GPU = "{{instance}} GPU {{gpu}}"
_OF_SEVERITY = {"critical": RED, "warning": AMBER, "info": "text"}
_XIDS = {number: (f"{number}: {each.meaning}", _OF_SEVERITY[each.severity]) for number, each in CATALOG.items()}
SLOWING = (
    ("sync_boost|display_clock_setting", "group or display clocks", "blue"),
    ("applications_clocks_setting", "clocks set by hand", "purple"),
    ("sw_power_cap", "power limit", "yellow"),
    ("board_limit|reliability", "limit of the board", AMBER),
    ("hw_slowdown", "hardware slowdown", "dark-orange"),
    ("sw_thermal_slowdown", "heat", "light-red"),
    ("hw_thermal_slowdown", "heat, by hardware", RED),
    ("hw_power_brake", "power brake", "dark-red"),
)
"""Reasons that slow the clocks of a GPU with work, from the weakest to the strongest; an idle GPU is slow by itself."""


def gpu_detail() -> models.Dashboard:
    """Load, memory, power, clocks, links and health of the selected GPUs."""
    return layout.build_dashboard(
        layout.GPU,
        "Load, memory, power, clocks, links and health of single GPUs.",
        [_identity(), _load(), _memory(), _power(), _clocks(), _links(), _health()],
        {
            "job": JOBS,
            "instance": f"label_values({_OF_JOB}, instance)",
            "gpu": f"label_values({host('voxyard:gpu_up:bool')}, gpu)",
            "run": f"label_values({host('train_active')}, run)",
        },
    )


_OF_JOB = 'voxyard:gpu_up:bool{cluster=~"$cluster",job=~"$job"}'


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
            "Multiprocessors and tensor cores",
            "What a kernel that runs uses of the card (Hopper and newer): the share of its multiprocessors with work "
            "(sm), of the warps that they can hold (occupancy), and of the time of its tensor cores. Busy and little "
            "of it: GpuBusyInPart.",
            "percentunit",
            Query(rate(gpu("gpu_activity_seconds_total", 'part!="dram"')), f"{_GPU} {{{{part}}}}"),
            top=1,
        ),
        time_series(
            "Memory bandwidth",
            "Share of the memory's bandwidth that is used (Hopper and newer).",
            "percentunit",
            Query(rate(gpu("gpu_activity_seconds_total", 'part="dram"')), _GPU),
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
            "The allocator's limit; context and libraries come on top. Without a limit there is the first line.",
            "bytes",
            Query(assigned(gpu("voxyard:gpu_memory_used:bytes")), f"{of_workload} used"),
            Query(gpu("workload_gpu_memory_limit_bytes"), f"{of_workload} limit"),
        ),
        time_series(
            "Processes",
            "Processes that compute on the card, as the driver counts them. More than its workloads have: strangers.",
            "none",
            Query(gpu("gpu_processes"), _GPU),
        ),
        time_series(
            "Memory of MIG instances",
            "Held ÷ size of each instance of a divided card. A divided card itself has no utilization.",
            "percentunit",
            Query(
                f"{gpu('gpu_mig_memory_used_bytes')} / ({gpu('gpu_mig_memory_size_bytes')} > 0)",
                f"{_GPU} MIG {{{{mig}}}}",
            ),
            top=1,
        ),
        time_series(
            "Activity of MIG instances",
            "What a kernel that runs uses of the instance (Hopper and newer), as of whole cards.",
            "percentunit",
            Query(rate(gpu("gpu_mig_activity_seconds_total")), f"{_GPU} MIG {{{{mig}}}} {{{{part}}}}"),
            top=1,
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
            Query(gpu("voxyard:gpu_power:watts"), f"{_GPU} now"),
            Query(rate(gpu("gpu_energy_joules_total")), f"{_GPU} from energy"),
            Query(gpu("gpu_power_limit_watts"), f"{_GPU} limit"),
            Query(gpu("gpu_power_limit_default_watts"), f"{_GPU} limit it starts with"),
        ),
        time_series(
            "Power ÷ limit",
            "Near 1 the card lowers its clocks to stay within the limit.",
            "percentunit",
            Query(gpu("voxyard:gpu_power:ratio"), _GPU),
        ),
        time_series(
            "Temperature",
            "Of the GPU, and of its memory where that has a sensor. GpuTemperatureHigh fires above 85 °C of the GPU.",
            "celsius",
            Query(gpu("voxyard:gpu_temperature:celsius"), _GPU),
            Query(gpu("gpu_memory_temperature_celsius"), f"{_GPU} memory"),
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
            "SM clock ÷ highest",
            "Of the multiprocessors, which compute. GpuClocksLow fires where it is below 0.75 under load and neither "
            "heat nor power explains it.",
            "percentunit",
            Query(_of_highest("sm"), _GPU),
            top=1,
        ),
        time_series(
            "Memory clock ÷ highest",
            "Of the device memory. An idle card lowers both clocks by itself.",
            "percentunit",
            Query(_of_highest("memory"), _GPU),
            top=1,
        ),
        states(
            "What slows the clocks",
            "The strongest reason that the driver reports, a line for each GPU; that a GPU idles is none. Many "
            "cards run at their power limit; heat and the power brake have alerts.",
            "none",
            Query(_strongest_reason(), _GPU),
            {0: ("nothing", GREEN)} | {at: (name, color) for at, (_, name, color) in enumerate(SLOWING, start=1)},
            width=24,
        ),
    ))  # fmt: skip


def _of_highest(clock: str) -> str:
    """Share of its highest clock at which a part of each card runs."""
    part = f'clock="{clock}"'
    return f"{gpu('gpu_clock_hertz', part)} / {gpu('gpu_clock_max_hertz', part)}"


def _strongest_reason() -> str:
    selectors = (gpu("gpu_clock_event_active", f'reason=~"{reasons}"') for reasons, _, _ in SLOWING)
    each = (f"{at} * {selector}" for at, selector in enumerate(selectors, start=1))
    return f"max by (instance, gpu) ({' or '.join(each)})"


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
            "PCIe and NVLink activity",
            "Bytes per second by the counters of the card's activity (Hopper and newer): protocol and all.",
            "Bps",
            Query(rate(gpu("gpu_moved_bytes_total")), f"{_GPU} {{{{path}}}}"),
        ),
        time_series(
            "PCIe lanes",
            "In use, and possible for this card; a slot may have fewer. Fewer than before: PcieLinkDowngraded.",
            "none",
            Query(gpu("voxyard:gpu_pcie_link_width:lanes"), f"{_GPU} in use"),
            Query(gpu("gpu_pcie_link_width_max"), f"{_GPU} possible"),
            width=8,
        ),
        time_series(
            "NVLinks that are up",
            "Fewer than before: GpuNvlinksDown.",
            "none",
            Query(gpu("gpu_nvlinks_active"), _GPU),
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
        time_series(
            "New NVLink errors",
            "In 15 minutes, over all NVLinks of the card, by kind: a link that recovers was down. "
            "GpuNvlinkErrors fires where they grow.",
            "none",
            Query(gpu("voxyard:gpu_nvlink_errors:increase15m"), f"{_GPU} {{{{kind}}}}"),
            width=8,
        ),
        time_series(
            "PCIe replays",
            "Packets per second that had to be sent again. PcieReplays fires above 8 a minute.",
            "cps",
            Query(gpu("voxyard:gpu_pcie_replays:rate10m"), _GPU),
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
                "xid": Column("Xid", states=_XIDS),
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
            "ECC errors, remapped rows, retired pages",
            "Volatile: since the driver was loaded. Aggregate: over the card's lifetime. Rows of memory that were "
            "remapped, or are to be (pending), or cannot be (failure). Cards before Ampere retire pages instead.",
            "none",
            [
                Query(f"max by (instance, gpu, uuid, kind) ({gpu('gpu_ecc_errors_total')})", "errors"),
                Query(f"max by (instance, gpu, uuid, kind) ({gpu('gpu_remapped_rows')})", "rows"),
                Query(f"max by (instance, gpu, uuid, kind) ({gpu('gpu_retired_pages')})", "pages"),
            ],
            {
                "instance": Column("Host"),
                "gpu": Column("GPU"),
                "kind": Column("Kind"),
                "errors": Column("ECC errors", "none"),
                "rows": Column("Rows", "none"),
                "pages": Column("Pages", "none"),
            },
            width=12,
        ),
        table_panel(
            "Recovery, fabric and MIG",
            "What the driver asks for to recover the card (none: it is well), the state of its registration with the "
            "NVLink fabric, and its MIG instances. A card that has one of them not has an empty field.",
            "none",
            [
                Query(f"group by (instance, gpu, uuid, action) ({gpu('gpu_recovery_action')} == 1)"),
                Query(f"group by (instance, gpu, uuid, state) ({gpu('gpu_fabric_state')} == 1)"),
                Query(f"max by (instance, gpu, uuid) ({gpu('gpu_mig_enabled')})", "mig"),
                Query(f"max by (instance, gpu, uuid) ({gpu('gpu_mig_instances')})", "instances"),
            ],
            {
                "instance": Column("Host"),
                "gpu": Column("GPU"),
                "action": Column("Recovery"),
                "state": Column("Fabric"),
                "mig": Column("MIG", states={0: ("off", "text"), 1: ("on", "blue")}),
                "instances": Column("Instances", "none"),
            },
            width=12,
        ),
    ))  # fmt: skip
