#!/usr/bin/python3
"""Fake nvidia-smi that replays a folder: tables, whole outputs, or a failure."""

from __future__ import annotations

import csv
import json
import os
import sys
import time
from pathlib import Path
from typing import NoReturn

CAPTURES = Path(os.environ.get("BED_CAPTURES", "/opt/nvidia/captures"))
ALIASES = {"gpu_uuid": "uuid", "gpu_name": "name", "gpu_bus_id": "pci.bus_id"}
TABLES = {"gpu": "gpus.csv", "remapped-rows": "gpus.csv", "compute-apps": "processes.csv"}
FORMAT = "csv,noheader,nounits"
NO_DEVICES, NOT_REPLAYED, UNKNOWN_FIELD = 6, 70, 2  # exit codes; 6 and 2 are nvidia-smi's


def end(code: int, text: str) -> NoReturn:
    """Say why, as nvidia-smi does: on standard output."""
    print(text)
    sys.exit(code)


def not_replayed(what: str) -> NoReturn:
    """Tell the author of a test, who should see at once that this is not the real program."""
    print(f"this nvidia-smi only replays: {what} (see tests/fleet/bed)", file=sys.stderr)
    sys.exit(NOT_REPLAYED)


def replay_failure() -> None:
    """Prints the messages of a broken driver, if one is planted."""
    path = CAPTURES / "failure.json"
    if path.exists():
        failure = json.loads(path.read_text(encoding="utf-8"))
        time.sleep(failure["seconds"])
        sys.stdout.write(failure["out"])
        sys.stderr.write(failure["err"])
        sys.exit(failure["code"])


def table(of: str) -> tuple[list[str], list[dict[str, str]]]:
    """Columns and rows."""
    path = CAPTURES / TABLES[of]
    if not path.exists():
        not_replayed(f"{path} is missing")
    with path.open(encoding="utf-8", newline="") as file:
        reader = csv.DictReader(file)
        rows = list(reader)
        return list(reader.fieldnames or []), rows


def query(of: str, names: list[str], options: dict[str, str]) -> None:
    """The fields asked for, in their order, a line for each GPU or process."""
    if of not in TABLES:
        not_replayed(f"no --query-{of}")
    if options.get("format", "").replace(" ", "") != FORMAT:
        not_replayed(f"expected --format={FORMAT}, found {options.get('format')}")
    columns, rows = table(of)
    wanted = [name if name in columns else ALIASES.get(name, name) for name in names]
    for asked, name in zip(names, wanted, strict=True):
        if name not in columns:
            end(UNKNOWN_FIELD, f'Field "{asked}" is not a valid field to query.')
    if not rows and of != "compute-apps":
        end(NO_DEVICES, "No devices were found")
    if chosen := options.get("id"):
        rows = [row for row in rows if chosen in (row.get("index"), row.get("uuid"), row.get("pci.bus_id"))]
    for row in rows:
        print(", ".join(row[name] for name in wanted))


def listing() -> None:
    """Output of -L."""
    for row in gpus():
        print(f"GPU {row['index']}: {row['name']} (UUID: {row['uuid']})")


def summary() -> None:
    """Output without arguments: the capture if there is one, else a line for each GPU."""
    path = CAPTURES / "plain.txt"
    if path.exists():
        sys.stdout.write(path.read_text(encoding="utf-8"))
        return
    for row in gpus():
        use = f"{row['memory.used']}MiB / {row['memory.total']}MiB"
        print(f"| {row['index']:>3}  {row['name']:<28} | {row['pci.bus_id']} | {use} | {row['utilization.gpu']}% |")


def gpus() -> list[dict[str, str]]:
    """The rows of the GPUs; without any, that is the answer."""
    _, rows = table("gpu")
    if not rows:
        end(NO_DEVICES, "No devices were found")
    return rows


def topology(words: list[str]) -> None:
    """Output of `topo -m` and `topo -p2p r`: files kept as they are."""
    path = CAPTURES / f"topo{'-'.join(['', *(word.lstrip('-') for word in words)])}.txt"
    if not path.exists():
        not_replayed(f"{path} is missing")
    sys.stdout.buffer.write(path.read_bytes())


def split(words: list[str]) -> dict[str, str]:
    """Options as nvidia-smi takes them: --name=value, -i value, --id=value."""
    found: dict[str, str] = {}
    rest = iter(words)
    for word in rest:
        name, _, value = word.partition("=")
        found["id" if name == "-i" else name.lstrip("-")] = next(rest, "") if name == "-i" else value
    return found


def main(words: list[str]) -> None:
    """Answer one call."""
    replay_failure()
    options = split(words)
    asked = [name for name in options if name.startswith("query-")]
    if not words:
        summary()
    elif words in (["-L"], ["--list-gpus"]):
        listing()
    elif words[0] == "topo":
        topology(words[1:])
    elif len(asked) == 1:
        query(asked[0].removeprefix("query-"), options[asked[0]].split(","), options)
    else:
        not_replayed(f"no {' '.join(words)}")


main(sys.argv[1:])
