"""Write the tables of runtime/COMMANDS.md and runtime/SETTINGS.md from the definitions in the code."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import click

from voxyard.cli import voxyard
from voxyard.cli.serve import ServeConfig
from voxyard.cli.speak import SpeakConfig
from voxyard.settings import SettingOption, markdown
from voxyard.telemetry.config import ExporterConfig
from voxyard.trainer.config import TrainConfig

RUNTIME = Path(__file__).resolve().parent.parent / "runtime"


def main(arguments: list[str] | None = None, *, folder: Path = RUNTIME) -> int:
    """Rewrite the files of `folder`; with --check only name those that would change (exit code 1)."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true")
    chosen = parser.parse_args(arguments)
    stale = 0
    for name, blocks in pages().items():
        path = folder / name
        old = path.read_text(encoding="utf-8")
        new = with_blocks(old, blocks)
        if new == old:
            continue
        stale += 1
        if chosen.check:
            print(f"{name} is behind the code: make docs", file=sys.stderr)
        else:
            path.write_text(new, encoding="utf-8")
            print(f"{name}: tables written")
    return 1 if stale and chosen.check else 0


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
