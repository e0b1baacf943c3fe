"""Render the dashboard panels of a Prometheus as one HTML page, without Grafana."""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

from boards.document import PLAIN_VALUES, STEP, Document, documents
from boards.layout import TITLES
from boards.page import View, page
from boards.pictures import Window
from boards.prometheus import Prometheus, PrometheusError

DASHBOARDS = Path(__file__).resolve().parent / "dashboards"
POINTS = 240


def main(arguments: list[str] | None = None) -> int:
    """Write the page; exit code 1 where Prometheus does not answer."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--prometheus", required=True, metavar="URL", help="such as http://127.0.0.1:9090")
    parser.add_argument("--out", type=Path, required=True, metavar="FILE", help="HTML file to write")
    parser.add_argument("--minutes", type=float, default=60, help="length of the time range in minutes [default: 60]")
    parser.add_argument("--until", type=float, metavar="UNIX", help="end of the time range [default: now]")
    parser.add_argument(
        "--scrape-interval",
        type=float,
        default=STEP,
        metavar="SECONDS",
        help=f"scrape interval of the Prometheus [default: {STEP}]",
    )
    parser.add_argument(
        "--set", action="append", default=[], metavar="NAME=REGEX", help="dashboard variable, such as instance=gpu-01"
    )
    asked = parser.parse_args(arguments)
    end = time.time() if asked.until is None else asked.until
    step = max(asked.scrape_interval, round(asked.minutes * 60 / POINTS))
    values = {
        **PLAIN_VALUES,
        "__interval": f"{step * 1000:.0f}ms",
        # As in Grafana, from the scrape interval and the step.
        "__rate_interval": f"{max(step + asked.scrape_interval, 4 * asked.scrape_interval) * 1000:.0f}ms",
        **dict(each.split("=", 1) for each in asked.set),
    }
    view = View(Prometheus(asked.prometheus), Window(end - asked.minutes * 60, end, step), values)
    try:
        text = page(_in_order(), view)
    except PrometheusError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    asked.out.parent.mkdir(parents=True, exist_ok=True)
    asked.out.write_text(text, "utf-8")
    sys.stdout.write(f"{asked.out} written: open it in a browser\n")
    return 0


def _in_order() -> list[Document]:
    places = list(TITLES)
    return sorted(documents(DASHBOARDS), key=lambda board: places.index(board.body["uid"]))


if __name__ == "__main__":
    sys.exit(main())
