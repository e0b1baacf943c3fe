"""Damage to what outsiders send, by chance: bytes cut, exchanged or lost; tags, words and values too."""

from __future__ import annotations

import random
import re

TOKEN = re.compile(rb'<[^<>]{0,300}>|"[^"]{0,200}"|\d+|\\[a-z]+-?\d*|[A-Za-z_]+|[^A-Za-z0-9_]')
VALUE = re.compile(rb'\d+|(?<=")[^"]*(?=")')
OTHERS = rb" 0 -1 1.5 65536 99999999999999999999 1e999 abc % IX 0x10 N/A".split(b" ")


def damaged(data: bytes, chance: random.Random) -> bytes:
    """The bytes cut, exchanged or lost at random, or their tags, words and values."""
    if chance.random() < 0.3:
        found, at = bytearray(data), chance.randrange(len(data) + 1)
        found[at : at + chance.choice((0, 1, 1, 8, 1000))] = chance.randbytes(chance.choice((0, 1, 4)))
        return bytes(found if chance.random() < 0.9 else found[:at])
    tokens = TOKEN.findall(data) or [b""]
    for _ in range(chance.choice((1, 2, 6))):
        at, change = chance.randrange(len(tokens)), chance.randrange(4)
        if change == 0:
            tokens[at] = VALUE.sub(lambda _: chance.choice(OTHERS), tokens[at])
        elif change == 1:
            tokens[at] = chance.choice(tokens)
        else:
            tokens[at : at + chance.choice((0, 1, 3))] = tokens[at : at + 9] * chance.choice((0, 1, 20))
            tokens = tokens or [b""]
    return b"".join(tokens)
