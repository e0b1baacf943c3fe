"""Limits of an API key, as the key file has them; the fair part of what all keys share."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from voxyard.service.errors import ServiceError


class KeyLimits(BaseModel):
    """Limits of one key beside those of the service; None where only the service's count."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)

    requests_per_minute: int | None = Field(default=None, ge=1)
    speech_requests: int | None = Field(default=None, ge=1)  # at a time
    documents: int | None = Field(default=None, ge=1)  # pending
    characters: int | None = Field(default=None, ge=1)  # of one text
    share: float = Field(
        default=1.0, ge=0.01, le=100.0
    )  # of the workers, beside the shares of the other keys with work

    def characters_of(self, most: int) -> int:
        """Most characters of a text, where the service allows this many."""
        return most if self.characters is None else min(most, self.characters)

    def changed(self) -> dict[str, Any]:
        """The limits that differ from the defaults, as the file has them."""
        return self.model_dump(exclude_defaults=True)

    def describe(self) -> str:
        """The limits that differ from the defaults, in one line; "" where there are none."""
        return ", ".join(f"{name} {value:g}" for name, value in self.changed().items())


NO_LIMITS = KeyLimits()
LimitsOf = Callable[[str], KeyLimits]
"""Limits by the name of a key."""


def no_limits(_: str) -> KeyLimits:
    """Limits where no API keys are required."""
    return NO_LIMITS


def read_limits(found: object) -> KeyLimits:
    """Limits of a key file's entry. Raises ServiceError with the field that is wrong."""
    try:
        return KeyLimits.model_validate(found)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        field = ".".join(("limits", *map(str, first["loc"])))
        known = ", ".join(KeyLimits.model_fields)
        raise ServiceError(f"{field}: {first['msg']}; the limits are {known}") from error


def fair_part(whole: int, name: str, busy: Collection[str], limits: LimitsOf) -> float:
    """Part of `whole` places that a key may take while the keys `busy` have some, by the shares of all of these.

    A key below its part is admitted even where others have taken all: it waits for nobody. So there are at most
    1 + 1/2 + … + 1/n times as many places in use, for n keys of equal share.
    """
    share = limits(name).share
    return whole * share / (share + sum(limits(other).share for other in busy if other != name))
