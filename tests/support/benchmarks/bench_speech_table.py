"""Figures and table of the speech benchmark, made from what its judges said."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

RECORDINGS, COPY, CONTROL = "recordings", "Griffin-Lim copy", "mean mel stretched"
GOALS = {
    "identified": "",
    "identified_vs_copy_synthesis": "≥ 0.9",
    "identified_unseen": "≥ 0.5",
    "identified_mean_mel": "< 0.05",
    "vocoder_mos_gap": "≤ 0.15",
    "griffin_lim_mos_gap": "",
}


@dataclass(frozen=True)
class Judgement:
    """Judgement of one sound: whether it was taken for its sentence, and its mean opinion score."""

    clip: str
    unseen: bool
    identified: bool
    mos: float


Judgements = Mapping[str, Sequence[Judgement]]  # by contestant


def figures(found: Judgements) -> dict[str, dict[str, float]]:
    """Shares identified and mean scores of each contestant; a figure is left out where nothing was judged for it."""
    made = {}
    for name, judged in found.items():
        shares = {
            "identified": _share(each for each in judged if not each.unseen),
            "identified_unseen": _share(each for each in judged if each.unseen),
            "identified_all": _share(judged),
            "mos": _mean([each.mos for each in judged]),
        }
        made[name] = {key: value for key, value in shares.items() if value is not None}
    return made


def ratios(found: Judgements, trained: str | None, vocoder: str | None = None) -> dict[str, float]:
    """The figures that have goals; those of a voice and its vocoder only where contestants of these names are given."""
    by_name = figures(found)
    made = {
        "identified_mean_mel": by_name[CONTROL]["identified_all"],
        "griffin_lim_mos_gap": mos_gap(found, COPY)[0],
    }
    if vocoder is not None:
        made["vocoder_mos_gap"] = mos_gap(found, vocoder)[0]
    if trained is None:
        return made
    voice, copy = by_name[trained], by_name[COPY]
    made["identified"] = voice["identified"]
    if copy["identified"] > 0:
        made["identified_vs_copy_synthesis"] = voice["identified"] / copy["identified"]
    if "identified_unseen" in voice:
        made["identified_unseen"] = voice["identified_unseen"]
    return {name: made[name] for name in GOALS if name in made}


def mos_gap(found: Judgements, contestant: str) -> tuple[float, float]:
    """Score of the recordings above the contestant's, clip by clip: the mean and its standard error."""
    own = {each.clip: each.mos for each in found[contestant]}
    gaps = [each.mos - own[each.clip] for each in found[RECORDINGS] if each.clip in own]
    error = statistics.stdev(gaps) / math.sqrt(len(gaps)) if len(gaps) > 1 else math.nan
    return statistics.fmean(gaps), error


def best(found: Judgements, trained: Sequence[str]) -> str | None:
    """The trained contestant of which most was identified, the earlier of two; None without any."""
    shares = {name: _share(found[name]) or 0.0 for name in trained}
    return max(trained, key=lambda name: shares[name]) if trained else None


def table(result: Mapping[str, Any]) -> str:
    """The tables of README.md beside the benchmark."""
    lines = ["| contestant | identified, trained sentences | unseen sentences | P.808 MOS |", "|---|---|---|---|"]
    for name, row in result["figures"]["contestants"].items():
        cells = (_cell(row.get("identified")), _cell(row.get("identified_unseen")), _cell(row.get("mos")))
        lines.append(f"| {name} | {' | '.join(cells)} |")
    lines += ["", "| ratio | measured | goal |", "|---|---|---|"]
    lines += [f"| `{name}` | {_cell(result['ratios'].get(name))} | {goal} |" for name, goal in GOALS.items()]
    return "\n".join(lines)


def _cell(value: float | None) -> str:
    return "not measured" if value is None else f"{value:.2f}"


def _share(judged: Iterable[Judgement]) -> float | None:
    return _mean([float(each.identified) for each in judged])


def _mean(values: Sequence[float]) -> float | None:
    return statistics.fmean(values) if values else None
