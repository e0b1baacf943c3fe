"""Results of a demo that nobody ran: every part of it, with figures that are made up."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from demo.monitoring import Alert, Gpu, Seen, Target
from demo.page import Results
from demo.processes import Record
from demo.sound import Sound
from demo.training import Curve, Reading

NOISE = Sound(np.random.default_rng(1).uniform(-0.5, 0.5, 4000), 22050)


def whole(text: str = "plain") -> Results:
    """Results of every part; every text in them is `text`."""
    reading = Reading(text, True, NOISE, NOISE, 0.4, (1.2, 1.4), 0.1)
    seen = Seen(
        at=1_800_000_000.0,
        targets=(Target(text, text, "up", 0.01),),
        alerts=(Alert(text, "firing", text, text, text, text), Alert("Slow", "pending", "info", "", "", "")),
        rules=(text, "Slow", "QuietOne"),
        gpus=(Gpu("0", text, True, 0.5, 2**30, 99.0, 61.0), Gpu("1", text, False)),
        series=7,
    )
    return Results(
        corpus=text, recording=(text, NOISE), reading=reading,
        report={"last_step": text, "ended": text, "devices": [text], "validation": {"refined_mel": 0.33}},
        curves=(Curve("training loss", ((1, 9.0), (20, 4.0))), Curve("mel error", ((20, 0.5),))),
        profile={"stages": [{"stage": text, "mean": 0.01}], "overlapped": {"seconds_per_step": 0.3}},
        profile_page=f"<!doctype html><p>{text}</p><script>let one = 1</script>", bark=(text, NOISE), scripted=True,
        monitored=True, dashboards="dashboards.html", seen=seen, left_out=[text],
        records=[
            Record(text, text, Path("logs/01-x.log"), 1.5), Record("served", text, Path("logs/02-y.log"), 9.0, True),
        ],
        seconds=245,
    )  # fmt: skip
