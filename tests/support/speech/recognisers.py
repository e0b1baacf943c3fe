"""Recognisers for tests of the check of words: each hears what it is told to hear."""

from __future__ import annotations

from typing import Any


class Scripted:
    """Hears one line after the other, and the last one again and again. An exception in the script is raised."""

    def __init__(self, *lines: str | Exception) -> None:
        self._lines = list(lines)
        self.asked: list[tuple[int, int, str | None]] = []  # samples, rate, language

    def words(self, audio: Any, sample_rate: int, language: str | None) -> str:
        """The next line."""
        self.asked.append((len(audio), sample_rate, language))
        line = self._lines.pop(0) if len(self._lines) > 1 else self._lines[0]
        if isinstance(line, Exception):
            raise line
        return line


def hello() -> Scripted:
    """Always hears the greeting."""
    return Scripted("hello, world")


def wrong_twice() -> Scripted:
    """Hears something else in the first two sounds."""
    return Scripted("a letter to my mother", "a penny", "hello world")


def never_right() -> Scripted:
    """Hears something else in every sound, in the second one the least."""
    return Scripted("three other words", "hello there worm", "nothing of the kind at all")


def deaf() -> Scripted:
    """Cannot tell."""
    return Scripted(ValueError("the model of the recogniser is not there"))
