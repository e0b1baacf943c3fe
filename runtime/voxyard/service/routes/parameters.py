"""Parameters that several routes share."""

from __future__ import annotations

from typing import Annotated

from fastapi import Path

DocumentId = Annotated[
    str,
    Path(
        description="32 hexadecimal digits.",
        examples=["0123456789abcdef0123456789abcdef"],
        json_schema_extra={"pattern": "^[0-9a-f]{32}$"},
    ),
]
