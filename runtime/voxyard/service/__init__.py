"""Speech service: OpenAI-compatible speech requests, and durable synthesis of documents."""

from __future__ import annotations

from voxyard.service.errors import ServiceError

__all__ = ["ServiceError"]
