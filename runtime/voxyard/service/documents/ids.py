"""Document ids: 32 hexadecimal digits, of which the first eight tell the service instance that has the document."""

from __future__ import annotations

import hashlib
import re
import uuid

PREFIX_DIGITS = 8
_ID = re.compile(r"[0-9a-f]{32}")


def new_id(instance: str = "") -> str:
    """Random id; of a named instance it begins with the instance's prefix, by which a gateway finds the document."""
    random = uuid.uuid4().hex
    return instance_prefix(instance) + random[PREFIX_DIGITS:] if instance else random


def is_id(text: str) -> bool:
    """True where this can be the id of a document."""
    return _ID.fullmatch(text) is not None


def instance_prefix(instance: str) -> str:
    """First digits of the ids of an instance's documents: the same for the same name, on every machine."""
    return hashlib.sha256(f"voxyard instance {instance}".encode()).hexdigest()[:PREFIX_DIGITS]
