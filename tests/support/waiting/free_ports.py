"""Ports for programs of tests that take none by themselves."""

from __future__ import annotations

import random
import socket

_PORTS = range(20_000, 32_768)  # below those that the kernel gives to whoever asks for any
_dice = random.SystemRandom()  # processes side by side choose others, whatever seed a test sets


def free_port() -> int:
    """A port of loopback that nobody uses now, nor is given before it is taken, as one of bind's own choice may be."""
    while True:
        with socket.socket() as found:
            try:
                found.bind(("127.0.0.1", port := _dice.choice(_PORTS)))
            except OSError:
                continue
            return port
