"""Table of a Bark benchmark for the README, made from its JSON file alone."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

BENCH = Path(__file__).resolve().parents[2] / "bench"
KEPT = BENCH / "results/bark.json"  # the run that the README shows
README = BENCH / "README.md"
BEGIN, END = "<!-- bark: made by bench-bark --keep -->", "<!-- /bark -->"
STAGES = ("semantic", "coarse_prefill", "coarse_decode", "fine", "codec")
GOALS = {
    "preset_end_to_end_vs_transformers": "≥ 3",
    "preset_end_to_end_vs_suno": "",
    "decode_vs_floor": "≥ 0.8",
    "first_sound_vs_first_sentence": "≤ 1.2",
    "opening_clause_vs_whole_sentence": "< 1",
    "tiny_vs_transformers": "≥ 4",
    "narrow24_vs_transformers": "≥ 4",
}
_FACTOR = "_real_time_factor"


def render(result: Mapping[str, Any]) -> str:
    """The result as Markdown."""
    return "\n".join(_lines(result))


def keep(result: Mapping[str, Any]) -> None:
    """Store the result in the repository and put its table into the README."""
    KEPT.parent.mkdir(exist_ok=True)
    KEPT.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
    README.write_text(with_table(README.read_text(encoding="utf-8"), result), encoding="utf-8")


def with_table(page: str, result: Mapping[str, Any]) -> str:
    """The page with the table of this result between its markers."""
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n{render(result)}\n{END}{after}"


def _lines(result: Mapping[str, Any]) -> Iterator[str]:
    ratios, figures, machine = result["ratios"], result["figures"], result["machine"]
    if result["stand_in"]:
        yield "**Stand-in: tiny sizes on a CPU, which measure nothing.**\n"
    gpu = machine["gpu"] or "no GPU"
    yield f"Measured on {result['date']}: {machine['cores']} cores, {gpu}, torch {machine['torch']}.\n"
    yield "| ratio | measured | goal |\n|---|---|---|"
    for name, value in ratios.items():
        yield f"| `{name}` | {value:.2f} | {GOALS.get(name, '')} |"
    for prefix in dict.fromkeys(_prefixes(figures)):
        yield ""
        yield from _end_to_end(prefix, figures)
    if machine["gpu"] is None and not result["stand_in"]:
        yield "\nThe GPU part needs a GPU, which this machine has not."


def _prefixes(figures: Mapping[str, Any]) -> Iterator[str]:
    """Prefix of each end-to-end comparison among the keys."""
    yield from (key.removesuffix("_audio_seconds") for key in figures if key.endswith("_audio_seconds"))


def _end_to_end(prefix: str, figures: Mapping[str, Any]) -> Iterator[str]:
    audio, made = figures[f"{prefix}_audio_seconds"], figures[f"{prefix}_tokens_made"]
    yield (
        f"| `{prefix}`: {audio:.1f} s of audio, {made:,} tokens made | s for a second of audio | "
        + " | ".join(stage.replace("_", " ") for stage in STAGES)
        + " | tokens prefilled |"
    )
    yield "|---|---|" + "---|" * len(STAGES) + "---|"
    for key, value in figures.items():
        if key.startswith(f"{prefix}_") and key.endswith(_FACTOR):
            name = key.removeprefix(f"{prefix}_").removesuffix(_FACTOR)
            kind = "floor_share" if name == "floor" else f"{name}_share"
            of_stages = [figures.get(f"{prefix}_{kind}_{stage}") for stage in STAGES]  # none where they overlap
            shares = " | ".join("" if share is None else f"{share:.1%}" for share in of_stages)
            prefilled = figures.get(f"{prefix}_{name}_tokens_prefilled")
            cells = [name.replace("_", " "), f"{value:.3g}", shares, "" if prefilled is None else f"{prefilled:,}"]
            yield f"| {' | '.join(cells)} |"
        elif key.startswith(f"{prefix}_") and key.endswith("_failure"):
            yield (
                f"| {key.removeprefix(f'{prefix}_').removesuffix('_failure').replace('_', ' ')} | {value} |" + " |" * 6
            )
