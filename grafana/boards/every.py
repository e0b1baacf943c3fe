"""All dashboards, as the JSON that Grafana reads."""

from __future__ import annotations

import json
from typing import Any

from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models import dashboard as models

from boards.bark import bark
from boards.fleet import fleet
from boards.gpu import gpu_detail
from boards.training import training


def every_dashboard() -> dict[str, str]:
    """The JSON text of each dashboard by the name of its file."""
    made = (fleet(), gpu_detail(), training(), bark())
    return {f"{str(board.uid).removeprefix('voxyard-')}.json": as_json(board) for board in made}


def as_json(board: models.Dashboard) -> str:
    """Stable text: the same code makes the same bytes."""
    document: dict[str, Any] = json.loads(json.dumps(board, cls=JSONEncoder))
    # The SDK's default is for its second schema: here it would hide the links and annotations in a menu.
    for each in (*document["links"], *document["annotations"]["list"]):
        each.pop("placement", None)
    return json.dumps(document, indent=2, ensure_ascii=False, sort_keys=True) + "\n"
