"""The Bark engine: text chunks in, speech out, on one device. Importing this loads no torch."""

from __future__ import annotations

from voxyard.bark.errors import BarkError

__all__ = ["BarkError"]
