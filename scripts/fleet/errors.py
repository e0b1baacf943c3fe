"""FleetError: the one exception type between the operator and the hosts."""

from __future__ import annotations


class FleetError(Exception):
    """A message for the operator: what was found, what was expected, what to do.

    `exit_code` is 2 for wrong use or a missing prerequisite, 1 where a host is what is wrong.
    """

    exit_code: int = 2


class HostFailedError(FleetError):
    """One host cannot be reached, or does not do what was asked; the others may."""

    exit_code = 1
