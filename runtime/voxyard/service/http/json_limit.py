"""JSON limit: depth and number of values of a body, counted in its bytes before anything is built of them."""

from __future__ import annotations

from voxyard.service.errors import ServiceError, TooLargeError

MOST_VALUES = 100_000
"""Names and values of a body: twice what a document of the most chapters has. Each takes about 100 bytes once built."""
MOST_DEPTH = 32
_STEP = 1 << 16  # bytes that are looked at together, which bounds what counting takes
_NO_STRUCTURE = bytes(set(range(256)) - set(b",:[]{}"))


class JsonLimit:
    """Counts the values of a JSON text in UTF-8, piece by piece, in time and memory that do not depend on its form."""

    def __init__(self, *, values: int = MOST_VALUES, depth: int = MOST_DEPTH) -> None:
        self._most_values, self._most_depth = values, depth
        self._values = self._depth = 0
        self._in_string = False
        self._rest = b""  # a backslash whose character is in the next piece

    def count(self, text: bytes) -> None:
        """Counts what a piece of the text has.

        Raises:
            TooLargeError: there are too many values.
            ServiceError: they are nested too deeply, or the text is not UTF-8.
        """
        for start in range(0, len(text), _STEP):
            self._count(text[start : start + _STEP])

    def _count(self, piece: bytes) -> None:
        if b"\0" in piece:  # in UTF-16 and UTF-32, which are JSON's no more, quotes would be found in the wrong places
            raise ServiceError("invalid JSON body: found a zero byte, expected UTF-8")
        piece = (self._rest + piece).replace(b"\\\\", b"")
        self._rest = b"\\" if piece.endswith(b"\\") else b""
        parts = piece.removesuffix(self._rest).replace(b'\\"', b"").split(b'"')
        structure = b"".join(parts[self._in_string :: 2]).translate(None, _NO_STRUCTURE)
        self._in_string ^= len(parts) % 2 == 0
        self._values += len(structure) - structure.count(b"]") - structure.count(b"}")
        if self._values > self._most_values:
            raise TooLargeError(f"JSON body with more than {self._most_values:,} names and values: send a smaller one")
        for brackets in structure.translate(None, b",:"):
            self._depth += 1 if brackets in b"[{" else -1
            if self._depth > self._most_depth:
                raise ServiceError(f"JSON body nested more than {self._most_depth} deep: /docs has its fields")


def check(text: str | bytes) -> None:
    """Checks a whole JSON text. Raises as `JsonLimit.count`."""
    JsonLimit().count(text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text)
