"""Router whose GET routes answer HEAD too."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fastapi import APIRouter


class Router(APIRouter):
    """Router that answers HEAD where it answers GET, with the same endpoint; the API's description has GET alone."""

    def add_api_route(self, path: str, endpoint: Callable[..., Any], **options: Any) -> None:
        """Adds a route, and for GET alone a second one for HEAD."""
        super().add_api_route(path, endpoint, **options)
        if options.get("methods") == ["GET"]:
            head = {**options, "methods": ["HEAD"], "include_in_schema": False, "operation_id": None}
            super().add_api_route(path, endpoint, **head)
