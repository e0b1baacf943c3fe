"""Process that times one candidate: its question is the configuration, its answer the report.

Devices of TensorFlow are set once a process, so each candidate has its own.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from voxyard.corpus import CorpusError
from voxyard.corpus.cold import ColdSource
from voxyard.host.child_process import Parent
from voxyard.host.errors import HostError
from voxyard.trainer.api import open_run
from voxyard.trainer.config import TrainConfig
from voxyard.trainer.corpora import Corpora, open_corpora
from voxyard.trainer.errors import TrainerError
from voxyard.trainer.out_of_memory import DOES_NOT_FIT, OutOfMemoryError


def main() -> int:
    """Times the run, or writes the features, that its parent asks for; exit code 2 with an error message."""
    parent = Parent()
    asked = parent.receive()
    config = TrainConfig.model_validate(asked["config"])
    try:
        done = _write(config, asked) if "features" in asked else _time(config)
    except OutOfMemoryError as error:
        sys.stderr.write(f"{DOES_NOT_FIT}: {error.what}\n")
        return 2
    except (TrainerError, CorpusError, HostError) as error:
        sys.stderr.write(f"{error}\n")
        return 2
    parent.send(done)
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


if __name__ == "__main__":
    sys.exit(main())
