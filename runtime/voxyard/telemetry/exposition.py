"""Exposition: the format of metrics by what a client accepts, without the `_created` series, which nobody reads."""

from __future__ import annotations

from prometheus_client import disable_created_metrics
from prometheus_client.exposition import choose_encoder

disable_created_metrics()  # type: ignore[no-untyped-call]


def readable_accept(header: str | None) -> str:
    """An `Accept` header without the formats whose version is not a number: prometheus_client fails with these."""
    return ",".join(each for each in (header or "").split(",") if _is_readable(each))


def _is_readable(accepted: str) -> bool:
    try:
        choose_encoder(accepted)
    except (TypeError, ValueError):
        return False
    return True
