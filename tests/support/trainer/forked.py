"""`voxyard …` and pieces of Python in forks of one process that has imported TensorFlow and used nothing of it.

An import of TensorFlow takes seconds of CPU, and a toy run hardly more: a suite of runs is twice as fast this way. What
a run does is the same. Variables that TensorFlow reads while it is imported are the server's, not the run's. The
loader reads LD_LIBRARY_PATH when a process starts: each value has a server of its own.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

from forks import Forks

_TENSORFLOW = """
from voxyard.trainer.devices.tensorflow_import import import_tensorflow
import_tensorflow()
import voxyard.trainer.loop, voxyard.trainer.model.trainable_tts, voxyard.trainer.synthesis, voxyard.cli.train
from voxyard.cli import main
"""
ALONE = """
from voxyard.cli import main
from voxyard.diagnose import other_load
other_load.NOTABLE = 2.0
raise SystemExit(main())
"""
"""A `source` for `run_forked`: voxyard as if nobody else were on the machine, since other tests are."""

FEW_JUDGES = """
from voxyard.cli import main
from voxyard.trainer.model import discriminators
discriminators.PERIODS, discriminators.RESOLUTIONS = (2,), ((512, 128),)
raise SystemExit(main())
"""
"""voxyard with one discriminator of each kind, not eight: most of what a toy run of a vocoder costs is their graph."""

_servers: dict[str, Forks] = {}  # by their LD_LIBRARY_PATH


def server_of(libraries: str = "") -> Forks:
    """The server of runs with this LD_LIBRARY_PATH, started where there is none."""
    if libraries not in _servers:
        _servers[libraries] = Forks(_TENSORFLOW, os.environ | ({"LD_LIBRARY_PATH": libraries} if libraries else {}))
    return _servers[libraries]


def run_forked(
    *arguments: object,
    environment: Mapping[str, str],
    cwd: Path | None = None,
    source: str | None = None,
) -> subprocess.CompletedProcess[str]:
    """`voxyard ARGUMENTS`, or `python -c SOURCE ARGUMENTS`, to its end, with its output as text."""
    server = server_of(environment.get("LD_LIBRARY_PATH", ""))
    words = ["voxyard" if source is None else "-c", *map(str, arguments)]
    return server.run(words, environment, cwd or Path.cwd(), source)
