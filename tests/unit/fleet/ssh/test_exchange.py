"""Exchanges with subprocesses: timeouts, complete output, no Ctrl-C."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from fleet.ssh.exchange import StalledError, exchange

PLENTY = 60.0


def test_what_comes_back_while_much_is_sent_is_read_meanwhile() -> None:
    chunks = [os.urandom(1 << 20) for _ in range(4)]
    said = exchange(["tee", "/dev/stderr"], chunks, stall_seconds=PLENTY, seconds=PLENTY)
    assert (said.out, said.err, said.code) == (b"".join(chunks), b"".join(chunks), 0)


def test_a_program_gets_an_empty_input_where_nothing_is_sent() -> None:
    assert exchange(["cat"], [b"", b""], stall_seconds=PLENTY, seconds=PLENTY).out == b""


def test_a_program_that_ends_before_it_has_read_all_says_why_itself() -> None:
    words = ["sh", "-c", "echo the disk is full >&2; exit 3"]
    said = exchange(words, [bytes(1 << 20)] * 4, stall_seconds=PLENTY, seconds=PLENTY)
    assert (said.err, said.code) == (b"the disk is full\n", 3)


def test_what_is_sent_is_taken_from_its_source_as_the_program_reads_it() -> None:
    asked: list[int] = []

    def source() -> Iterator[bytes]:
        for number in range(64):
            asked.append(number)
            yield bytes(1 << 16)

    exchange(["head", "-c", "10"], source(), stall_seconds=PLENTY, seconds=PLENTY)
    assert len(asked) < 64


def test_a_program_that_takes_nothing_any_more_is_ended() -> None:
    with pytest.raises(StalledError) as caught:
        exchange(["sleep", "60"], [bytes(1 << 20)], stall_seconds=0.1, seconds=PLENTY)
    assert caught.value.sending


def test_a_program_that_does_not_end_is_ended() -> None:
    with pytest.raises(StalledError) as caught:
        exchange(["sleep", "60"], [b"x"], stall_seconds=PLENTY, seconds=0.1)
    assert not caught.value.sending


def test_a_source_that_fails_ends_the_program(tmp_path: Path) -> None:
    def source() -> Iterator[bytes]:
        yield b"x" * 10
        raise KeyError("gone")

    with pytest.raises(KeyError, match="gone"):
        exchange(["sh", "-c", f"echo $$ > {tmp_path}/pid; sleep 60"], source(), stall_seconds=PLENTY, seconds=PLENTY)
