"""Errors of the test bed."""

from __future__ import annotations


class BedError(Exception):
    """The test bed cannot do what a test asked of it; the message says what to do."""
