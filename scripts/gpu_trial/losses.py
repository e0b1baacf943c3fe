"""Losses of some runs, one after the other on the same devices.

`losses.py CASES.json OUT.json`: CASES.json is a list of {"name": …, "config": …}. The file is written after each case,
so that a limit cuts off one alone.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any


def main() -> int:
    """Run the cases; 1 where one of them failed."""
    cases, out = Path(sys.argv[1]), Path(sys.argv[2])
    from voxyard.trainer.api import open_run
    from voxyard.trainer.config import TrainConfig

    found: list[dict[str, Any]] = []
    for case in json.loads(cases.read_text(encoding="utf-8")):
        one: dict[str, Any] = {"name": case["name"]}
        begin = time.perf_counter()
        try:
            with tempfile.TemporaryDirectory() as folder:
                config = case["config"]
                config["training"] |= {"checkpoint_dir": folder}
                one["losses"] = dict(open_run(TrainConfig.model_validate(config)).execute().losses)
        except Exception as error:  # noqa: BLE001 (whatever TensorFlow raises is this case's result)
            one["error"] = f"{type(error).__name__}: {error}"[:1500]
        found.append(one | {"seconds": round(time.perf_counter() - begin, 1)})
        out.write_text(json.dumps(found, indent=1), encoding="utf-8")
    sys.stdout.flush()
    os._exit(1 if any("error" in each for each in found) else 0)  # nothing of TensorFlow's end is waited for


if __name__ == "__main__":
    main()
