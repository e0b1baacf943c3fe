"""NVLink counters of one GPU, summed over its links: errors of each kind, and traffic where only links tell it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

ASK_AGAIN_SECONDS = 300.0
"""Time after which counters that no link has answered are asked for again."""

VALUE_MEMBERS = ("dVal", "uiVal", "ulVal", "ullVal", "sllVal", "siVal", "usVal")  # nvml.h, enum nvmlValueType_t

_MOST_AT_ONCE = 96
_WHOLE_GPU = 0  # as scope: of fields that have none
# Of one name, the first source that answers is taken. nvml.h: NVML_FI_DEV_NVLINK_…; NVLink 5 (Blackwell) counts from
# 201 on, Hopper and before link errors by ERROR_DL_…, and the oldest for the whole GPU.
_OF_LINK: tuple[tuple[str, tuple[int, ...]], ...] = (
    ("nvlink_transmit_bytes", (202,)),
    ("nvlink_receive_bytes", (204,)),
    ("nvlink_errors_receive", (208,)),
    ("nvlink_errors_integrity", (211,)),
    ("nvlink_errors_discard", (212,)),
    ("nvlink_errors_recovery_failed", (214,)),
    ("nvlink_errors_recovery", (215,)),
    ("nvlink_errors_effective", (219,)),
    ("nvlink_errors_replay", (161,)),
    ("nvlink_errors_recovery", (162,)),
    ("nvlink_errors_crc", (163,)),
)
_OF_GPU: tuple[tuple[str, tuple[int, ...]], ...] = (
    ("nvlink_errors_crc", (38, 45)),  # of flow control, of data
    ("nvlink_errors_replay", (52,)),
    ("nvlink_errors_recovery", (59,)),
    ("nvlink_errors_ecc", (160,)),
)

Field = tuple[int, int]  # NVML_FI_DEV_…, and its scope: the link


def field_number(value: Any) -> float | None:
    """The number in an answer for one field; None where the card does not have it: all ones of 64 bits are none."""
    if value.nvmlReturn != 0 or value.valueType >= len(VALUE_MEMBERS):
        return None
    number = getattr(value.value, VALUE_MEMBERS[value.valueType])
    return float(number) if 0 <= number < 2**64 - 1 else None


class NvLinkCounters:
    """Counters that only grow: a link that goes, or comes back and counts from 0, takes nothing away."""

    def __init__(self, ask: Callable[[list[Field]], Any], clock: Callable[[], float] = time.monotonic) -> None:
        """`ask` is NVML's nvmlDeviceGetFieldValues for the GPU, None where it gives no answer."""
        self._ask, self._clock = ask, clock
        self._sources: dict[str, tuple[int, ...]] = {}
        self._chosen: float | None = None  # when the sources were
        self._last: dict[Field, float] = {}
        self._totals: dict[str, float] = {}

    def read(self, links: int) -> dict[str, float]:
        """The counters of a GPU with so many links, by name: `nvlink_errors_…`, `nvlink_…_bytes`."""
        if links == 0:
            return {}
        now = self._clock()
        every = self._chosen is None or now - self._chosen >= ASK_AGAIN_SECONDS
        wanted = [source for _, source in (*_OF_LINK, *_OF_GPU)] if every else list(self._sources.values())
        answers = self._answers([field for source in wanted for field in _fields(source, links)])
        if every:
            self._chosen = now
            self._choose({number for number, _ in answers})
        for name, source in self._sources.items():
            for field in _fields(source, links):
                if field in answers:
                    self._add(name, field, answers[field])
        return dict(self._totals)

    def _choose(self, answered: set[int]) -> None:
        for name, source in (*_OF_LINK, *_OF_GPU):
            if answered & set(source):
                self._sources.setdefault(name, source)

    def _answers(self, fields: Sequence[Field]) -> dict[Field, float]:
        found: dict[Field, float] = {}
        for first in range(0, len(fields), _MOST_AT_ONCE):
            part = list(fields[first : first + _MOST_AT_ONCE])
            numbers = map(field_number, self._ask(part) or ())
            found |= {field: number for field, number in zip(part, numbers, strict=False) if number is not None}
        return found

    def _add(self, name: str, field: Field, number: float) -> None:
        before = self._last.get(field, 0.0)
        self._last[field] = number
        self._totals[name] = self._totals.get(name, 0.0) + (number - before if number >= before else number)


def _fields(source: Sequence[int], links: int) -> Iterator[Field]:
    of_gpu = any(source == each for _, each in _OF_GPU)
    for number in source:
        yield from ((number, link) for link in ((_WHOLE_GPU,) if of_gpu else range(links)))
