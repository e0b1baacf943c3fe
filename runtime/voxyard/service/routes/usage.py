"""Usage route: `GET /v1/usage`, what a key had spoken by day."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated

from fastapi import Query
from pydantic import BaseModel, Field

from voxyard.service.routes.inputs import AppStateDep, ClientDep
from voxyard.service.routes.openapi import Router, errors
from voxyard.service.usage import KEPT_DAYS

router = Router(tags=["catalogue"])


class UsageDayOut(BaseModel):
    """Usage of a key on a day."""

    day: str = Field(description="Date (UTC), as 2026-11-28.")
    key: str = Field(description="Name of the key; empty where none is required.")
    characters: int = Field(
        description="Of the submitted text that was spoken, before figures are read as words; of Markdown and files, "
        "of the text in them."
    )
    audio_seconds: float
    gpu_seconds: float = Field(description="Time of workers; chunks that one speaks at the same time share it.")


class UsageOut(BaseModel):
    """Usage by day and key."""

    usage: list[UsageDayOut]


@router.get("/v1/usage", operation_id="retrieve_usage", summary="Retrieve the usage of keys", responses=errors(400))
def retrieve_usage(
    state: AppStateDep,
    client: ClientDep,
    days: Annotated[int, Query(ge=1, le=KEPT_DAYS, description="The last days, today among them.")] = 30,
) -> UsageOut:
    """Characters, seconds of audio and seconds of GPUs, by day: of the own key, of all keys for an admin key.

    What was spoken in the last seconds may be missing. A chunk that is spoken again on request counts again; markup,
    white space between chunks and what could not be spoken do not count.
    """
    all_keys = state.keys is None or state.keys.is_admin(client.name)
    since = state.store.meter.today() - timedelta(days - 1)
    return UsageOut(
        usage=[
            UsageDayOut(
                day=each.day.isoformat(),
                key=each.key,
                characters=each.amounts.characters,
                audio_seconds=round(each.amounts.audio_seconds, 3),
                gpu_seconds=round(each.amounts.gpu_seconds, 3),
            )
            for each in state.store.usage.since(since, None if all_keys else client.name)
        ]
    )
