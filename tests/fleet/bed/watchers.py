"""Images of the monitoring programs, under the names of the compose file."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

from tests.fleet.bed import images
from tests.fleet.bed.engine import Engine

ROOT = Path(__file__).resolve().parents[3]
COMPOSE = [ROOT / "deploy/compose" / name for name in ("monitoring.yaml", "node-exporter.yaml")]
PROGRAMS = {
    "PROMETHEUS": "prometheus",
    "ALERTMANAGER": "prometheus-alertmanager",
    "NODE_EXPORTER": "prometheus-node-exporter",
}
"""What the compose file's variables call them, and Debian. Grafana is not among Debian's packages."""


def build(engine: Engine) -> dict[str, str]:
    """Names of the images, by the variables' words; the engine holds them then. Raises BedError."""
    context = engine.folder / "watchers"
    context.mkdir(exist_ok=True)
    shutil.copy(Path(__file__).with_name("inside") / "wget.py", context)
    text = "".join(path.read_text(encoding="utf-8") for path in COMPOSE)
    found = {}
    for word, program in PROGRAMS.items():
        (name,) = re.findall(rf"\$\{{VOXYARD_{word}_IMAGE:-([^}}]+)\}}", text)
        arguments = {"BASE": images.BASE, "PROGRAM": program}
        engine.build(context, name, dockerfile=Path(__file__).with_name("watchers.Dockerfile"), arguments=arguments)
        found[word] = name
    return found
