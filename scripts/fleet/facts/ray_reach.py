"""Facts of who reaches a Ray cluster: its head as its hosts see it, and the ports of each as this machine does."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, get_args

from fleet.facts.fact import Fact, UnexpectedError, Unknown
from fleet.ssh.command_batch import verb

Reach = Literal["open", "refused", "silent", "none", "self"]
"""Result of a connection: `none` without a route, `self` where the address is one of this machine's own."""


@dataclass(frozen=True, slots=True)
class RayReach:
    """Connections that were tried."""

    head: Reach | Unknown | None = None  # from the host; None: it has the head, or there is none
    from_here: Mapping[int, Reach] = field(default_factory=dict)  # by port of the host


def head_fact(address: str, port: int) -> Fact[Reach]:
    """Fact whether the host reaches the head of its cluster."""
    return Fact("ray-head", verb("fact_reach", address, str(port)), _parse)


def _parse(text: str) -> Reach:
    word = text.strip()
    for each in get_args(Reach):
        if word == each:
            found: Reach = each
            return found
    raise UnexpectedError("expected open, refused, silent or none")
