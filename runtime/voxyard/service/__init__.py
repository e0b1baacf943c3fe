"""Audio over HTTP: speech requests, and documents that survive the service that speaks them."""

from __future__ import annotations

from voxyard.service.errors import ServiceError

__all__ = ["ServiceError"]
