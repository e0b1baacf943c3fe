"""All dashboards as JSON for Grafana."""

from __future__ import annotations

import json
from typing import Any

from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models import dashboard as models

from boards.bark import bark
from boards.fleet import fleet
from boards.gpu import gpu_detail
from boards.training import training


def all_dashboards() -> dict[str, str]:
    """JSON text of each dashboard, by file name."""
    made = (fleet(), gpu_detail(), training(), bark())
    return {f"{str(board.uid).removeprefix('voxyard-')}.json": to_json(board) for board in made}


def to_json(board: models.Dashboard) -> str:
    """JSON text of a dashboard, reproducible."""
    document: dict[str, Any] = json.loads(json.dumps(board, cls=JSONEncoder))
    # The SDK's default for the newer schema would hide links and annotations in a menu.
    for each in (*document["links"], *document["annotations"]["list"]):
        each.pop("placement", None)
    return json.dumps(document, indent=2, ensure_ascii=False, sort_keys=True) + "\n"
