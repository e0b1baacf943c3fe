"""Process that times one candidate: its configuration comes as a line of JSON, its report goes out as one.

`python -m voxyard.trainer.autotune.trial`; devices of TensorFlow are set once a process, so each has its own.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from pathlib import Path
from typing import Any

from voxyard.corpus import CorpusError
from voxyard.corpus.cold import ColdSource
from voxyard.host import HostError
from voxyard.trainer.api import open_run
from voxyard.trainer.config import TrainConfig
from voxyard.trainer.corpora import Corpora, open_corpora
from voxyard.trainer.errors import TrainerError
from voxyard.trainer.out_of_memory import OutOfMemoryError


def main() -> int:
    """Times the run, or writes the features, that standard input asks for; exit code 2 with an error message."""
    asked = json.loads(sys.stdin.readline())
    threading.Thread(target=_end_with_parent, daemon=True).start()
    config = TrainConfig.model_validate(asked["config"])
    try:
        done = _write(config, asked) if "features" in asked else _time(config)
    except OutOfMemoryError as error:
        sys.stderr.write(f"it does not fit: {error.what}\n")
        return 2
    except (TrainerError, CorpusError, HostError) as error:
        sys.stderr.write(f"{error}\n")
        return 2
    sys.stdout.write(json.dumps(done) + "\n")
    sys.stdout.flush()
    return 0


def _time(config: TrainConfig) -> dict[str, Any]:
    corpora = open_corpora(config)
    source = ColdSource(corpora.training)
    run = open_run(config, corpora=Corpora(source, None, corpora.coverage))
    plans = run.sampler.batches(run.first_step, run.end_step)
    with source.cold_read(clip for plan in plans for clip in plan.clips) as cold:  # every candidate reads from the disk
        report = run.execute()
    # However few steps were asked for, their rate is compared; of too few, the report has no other times.
    rate = {"steps_per_second": run.clock.rate, "data_wait_share": run.clock.wait_share, "steps_timed": run.clock.steps}
    return report.to_json() | rate | {"reads": {"of_disk": cold.pages.trusted, "said": str(cold.pages)}}


def _write(config: TrainConfig, asked: dict[str, Any]) -> dict[str, Any]:
    from voxyard.trainer.precompute import precompute

    made = precompute(config, Path(asked["features"]), clips=asked["clips"])
    return {"clips": made.clips, "bytes": made.bytes}


def _end_with_parent() -> None:
    """Ends this process with its parent, which keeps our standard input open until its own end."""
    while os.read(0, 1024):  # not through sys.stdin, whose lock would be held when the interpreter ends
        pass
    os._exit(1)


if __name__ == "__main__":
    sys.exit(main())
