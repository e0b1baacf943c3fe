"""Write what guides take from elsewhere: tables from the definitions in the code, the status from the GPU reports."""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import click

from voxyard.cli import voxyard
from voxyard.cli.serve import ServeConfig
from voxyard.cli.speak import SpeakConfig
from voxyard.settings import SettingOption, example_file, markdown
from voxyard.telemetry.config import ExporterConfig
from voxyard.trainer.config import TrainConfig

ROOT = Path(__file__).resolve().parent.parent
RUNTIME = ROOT / "runtime"
REPORTS = ROOT / "tests/bench/results/gpu"  # kept by scripts/gpu_report --keep, one file a run
EXAMPLE = ROOT / "deploy/train.example.yaml"
EXAMPLE_HEAD = """\
# Settings of a run: voxyard train --config FILE, fab train --config FILE. Flags and environment variables win over it.
# Nothing is set here: each line #key: value is a default. Take the # away and change it. `make docs` writes this file.

"""
STATUS_PAGES = (ROOT / "README.md", ROOT / "tests/bench/README.md")
_STATUS = re.compile(r"(?<=<!-- gpu -->).*?(?=<!-- /gpu -->)", re.DOTALL)


def main(
    arguments: list[str] | None = None,
    *,
    folder: Path = RUNTIME,
    status_pages: Sequence[Path] = STATUS_PAGES,
    reports: Path = REPORTS,
) -> int:
    """Rewrite the files of `folder` and the status pages; with --check only name those that would change (exit 1)."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true")
    chosen = parser.parse_args(arguments)
    stale = 0
    made = [(name, folder / name, partial(with_blocks, blocks=blocks)) for name, blocks in pages().items()]
    line = status(reports)
    made += [(_shown(path), path, partial(with_status, line=line)) for path in status_pages]
    made.append((_shown(EXAMPLE), EXAMPLE, partial(_replaced, by=EXAMPLE_HEAD + example_file(TrainConfig))))
    for name, path, change in made:
        old = path.read_text(encoding="utf-8")
        new = change(old)
        if new == old:
            continue
        stale += 1
        if chosen.check:
            print(f"{name} is behind the code: make docs", file=sys.stderr)
        else:
            path.write_text(new, encoding="utf-8")
            print(f"{name}: written")
    return 1 if stale and chosen.check else 0


def _replaced(_: str, by: str) -> str:
    return by


def status(reports: Path) -> str:
    """Status line: the newest result of every step among the kept reports of GPUs; stand-ins are none."""
    steps: dict[str, tuple[str, dict[str, Any]]] = {}  # by name: the cards, and the step with its figures
    left_out: dict[str, None] = {}
    for report in sorted(
        (each for each in map(_kept, sorted(reports.glob("*.json"))) if each), key=lambda each: each[0]
    ):
        _, cards, done, names = report
        steps |= {step["name"]: (cards, step) for step in done}
        left_out |= dict.fromkeys(names)
    if not steps:
        return "voxyard has not run on a GPU yet"
    judged = [met for _, step in steps.values() for met in step["met"]]
    failed = [name for name, (_, step) in steps.items() if not step["ok"]]
    words = f"voxyard ran on {', '.join(dict.fromkeys(cards for cards, _ in steps.values()))}"
    words += f": {sum(judged)} of {len(judged)} targets met" if judged else ""
    words += f", failed: {', '.join(failed)}" if failed else ""
    missing = [name for name in left_out if name not in steps]
    return words + (f"; not run: {', '.join(missing)}" if missing else "")


def _kept(file: Path) -> tuple[str, str, list[dict[str, Any]], list[str]] | None:
    """Date, cards in words, steps with the verdicts of their figures, and what was left out; None for a stand-in."""
    try:
        report = json.loads(file.read_text(encoding="utf-8"))
        if report["stand_in"]:
            return None
        cards = report["host"]["cards"]
        names = ", ".join(dict.fromkeys(str(card["name"]) for card in cards))
        met: dict[str, list[bool]] = {}
        for each in report["figures"]:
            if each["met"] is not None:
                met.setdefault(str(each["step"]), []).append(bool(each["met"]))
        steps = [{"name": step["name"], "ok": step["ok"], "met": met.get(step["name"], [])} for step in report["steps"]]
        words = f"{len(cards)} × {names} on {report['date'][:10]}"
        return str(report["date"]), words, steps, [name.partition(":")[0] for name in report.get("left_out", ())]
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        raise SystemExit(f"{_shown(file)} is no report of make test-gpu ({error!r}): remove it") from error


def with_status(text: str, line: str) -> str:
    """`text` with what stands between `<!-- gpu -->` and `<!-- /gpu -->` replaced."""
    if len(_STATUS.findall(text)) != 1:
        raise ValueError("expected one text from <!-- gpu --> to <!-- /gpu -->")
    return _STATUS.sub(lambda _: line, text)


def _shown(path: Path) -> str:
    return str(path.relative_to(ROOT)) if path.is_relative_to(ROOT) else path.name


def pages() -> dict[str, dict[str, str]]:
    """Every file that holds tables: its name, and each table by the name of its block."""
    settings = {
        "settings": markdown(TrainConfig),
        "exporter": markdown(ExporterConfig),
        "speak": markdown(SpeakConfig),
        "serve": markdown(ServeConfig, leave_out=("speech", "bark")),
    }
    return {"COMMANDS.md": {"commands": commands()}, "SETTINGS.md": settings}


def with_blocks(text: str, blocks: dict[str, str]) -> str:
    """`text` with what stands between `<!-- NAME:begin -->` and `<!-- NAME:end -->` replaced."""
    for name, body in blocks.items():
        begin, end = f"<!-- {name}:begin -->", f"<!-- {name}:end -->"
        if len(re.findall(f"{begin}.*?{end}", text, re.DOTALL)) != 1:
            raise ValueError(f"expected one block from {begin} to {end}")
        before, _, rest = text.partition(begin)
        text = f"{before}{begin}\n\n{body.strip()}\n\n{end}{rest.partition(end)[2]}"
    return text


def commands() -> str:
    """A table of all commands: what is typed, and what it does."""
    rows = [f"| `{usage}` | {sentence} |" for usage, sentence in _commands(voxyard, "voxyard")]
    return "\n".join(["| command | what it does |", "|---|---|", *rows])


def _commands(group: click.Group, path: str) -> Iterator[tuple[str, str]]:
    context = click.Context(group, info_name=path)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if isinstance(command, click.Group):
            yield from _commands(command, f"{path} {name}")
        elif command is not None:
            sentence = (command.help or "").strip().partition("\n\n")[0].replace("\n", " ")
            words = [part for each in command.params if (part := _usage(each))]
            yield " ".join([path, name, *words]).replace("|", "\\|"), sentence


def _usage(parameter: click.Parameter) -> str:
    if isinstance(parameter, SettingOption):
        return ""  # in the table of settings
    if isinstance(parameter, click.Option):
        value = "" if parameter.is_flag else f" {parameter.metavar or 'TEXT'}"
        text = f"{parameter.opts[0]}{value}"
        return text if parameter.required else f"[{text}]"
    return (parameter.name or "").upper()


if __name__ == "__main__":
    sys.exit(main())
