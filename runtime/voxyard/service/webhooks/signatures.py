"""Signatures of webhooks: our header, and those of Standard Webhooks."""

from __future__ import annotations

import hmac
from datetime import UTC, datetime

from standardwebhooks.webhooks import Webhook

SIGNATURE = "X-Voxyard-Signature"
TOLERANCE = 300.0
"""Seconds by which a signature's time may differ from the receiver's clock, in `verify`."""


def sign(secret: bytes, body: bytes, when: int) -> str:
    """Signature header: `t=<Unix seconds>,v1=<HMAC-SHA256 of "<t>.<body>">`."""
    return f"t={when},v1={hmac.new(secret, b'%d.' % when + body, 'sha256').hexdigest()}"


def standard_headers(secret: bytes, id: str, body: bytes, when: int) -> dict[str, str]:
    """Headers of the specification Standard Webhooks; `id` is the same at every delivery, `when` in Unix seconds."""
    signed = Webhook(secret).sign(id, datetime.fromtimestamp(when, UTC), body.decode())
    return {"webhook-id": id, "webhook-timestamp": str(when), "webhook-signature": signed}


def verify(secret: bytes, header: str, body: bytes, *, now: float, tolerance: float = TOLERANCE) -> bool:
    """Verification at the receiver: True where the header signs the body and is not older than `tolerance` seconds."""
    parts = dict(part.partition("=")[::2] for part in header.split(","))
    when = parts.get("t", "")
    if not (when.isascii() and when.isdecimal() and len(when) < 15) or abs(now - int(when)) > tolerance:
        return False
    return hmac.compare_digest(sign(secret, body, int(when)).encode(), header.encode())
