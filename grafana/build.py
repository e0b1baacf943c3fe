"""Write the Grafana dashboards grafana/dashboards/*.json from the code in grafana/boards."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from boards.every import all_dashboards

DASHBOARDS = Path(__file__).resolve().parent / "dashboards"


def main(arguments: list[str] | None = None) -> int:
    """Write the files; with --check only compare, exit code 1 for a difference."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; fail where a file differs from the code")
    parser.add_argument("--to", type=Path, default=DASHBOARDS, metavar="DIR", help="directory of the files")
    asked = parser.parse_args(arguments)
    made = all_dashboards()
    there = {path.name: path for path in asked.to.glob("*.json")}
    wrong = [name for name, text in made.items() if name not in there or there[name].read_text("utf-8") != text]
    left = sorted(set(there) - set(made))
    if asked.check:
        for name in wrong:
            sys.stderr.write(f"{asked.to / name} differs from grafana/boards: run python grafana/build.py\n")
        for name in left:
            sys.stderr.write(
                f"{asked.to / name} has no code in grafana/boards: remove it, or run python grafana/build.py\n"
            )
        return 1 if wrong or left else 0
    asked.to.mkdir(parents=True, exist_ok=True)
    for name in wrong:
        (asked.to / name).write_text(made[name], "utf-8")
    for name in left:
        there[name].unlink()
    sys.stdout.write(f"{len(made)} dashboards in {asked.to}, {len(wrong)} written, {len(left)} removed\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
