"""Table of the runs that a trial has timed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

COLUMNS = {
    "rows": "rows", "compile_update_seconds": "compiled, s", "features_ms": "D, ms", "update_ms": "M, ms",
    "launch_ms": "launch", "beside_ms": "V, ms", "overlapped_ms": "step, ms", "clips_per_second": "clips/s",
    "data_wait_share": "wait", "variation": "varies",
}  # fmt: skip


def table(done: Mapping[str, Mapping[str, Any]]) -> str:
    """The figures of each run, one line a run; the busy shares of a card's parts below."""
    lines = [f"{'run':<22}" + "".join(f"{title:>12}" for title in COLUMNS.values()) + f"{'GPU':>8}{'W':>6}"]
    for name, one in done.items():
        found = one["result"]
        if "features_ms" not in found:
            continue
        use = found.get("overlapped_nvml", {})
        cells = [found.get(column) for column in COLUMNS]
        lines.append(
            f"{name:<22}"
            + "".join(f"{'–' if cell is None else format(cell, '.4g'):>12}" for cell in cells)
            + f"{use.get('utilization', float('nan')):>8.0%}{use.get('power_watts', float('nan')):>6.0f}"
        )
        lines += [f"  {share}: {value:.0%}" for share, value in found["ratios"].items() if share.endswith("_busy")]
    for name, one in done.items():
        lines += [f"{case}: {value:.2%}" for case, value in one["result"].get("ratios", {}).items() if ": " in case]
        if not one["ok"]:
            lines.append(f"{name}: exit code {one['exit_code']} {one['result'].get('error', '')[:200]}".rstrip())
    return "\n".join(lines)
