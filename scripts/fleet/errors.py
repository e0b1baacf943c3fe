"""Exceptions of fleet operations, with their exit codes."""

from __future__ import annotations


class FleetError(Exception):
    """Error with a message for the operator: what was found, what was expected, what to do.

    `exit_code` is 2 for wrong use or a missing prerequisite, 1 for a failed host.
    """

    exit_code: int = 2


class HostFailedError(FleetError):
    """Failure of one host: unreachable, or a command failed; other hosts are not affected."""

    exit_code = 1
