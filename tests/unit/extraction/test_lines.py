"""Lines of a plain text: words that are broken at a line's end are joined, compounds keep their hyphen."""

from __future__ import annotations

import pytest

from voxyard.extraction.lines import with_paragraphs


@pytest.mark.parametrize(
    ("text", "joined"),
    [
        ("from Lon-\ndon to Paris", "from London to Paris"),
        ("die Vor-\nund Nachteile", "die Vor- und Nachteile"),
        ("ein Haus-\n oder Hofhund", "ein Haus- oder Hofhund"),
        ("il a peut-\nêtre raison", "il a peut-être raison"),
        ("non, dit-\nil", "non, dit-il"),
        ("à vingt-\ntrois ans", "à vingt-trois ans"),
        ("un arc-en-\nciel", "un arc-en-ciel"),
        ("a 19th-\ncentury house", "a 19th-century house"),
        ("she is sixty-\nfive", "she is sixty-five"),
        ("a well-\nto-do man", "a well-to-do man"),
        ("a ten-\nyear-old boy", "a ten-year-old boy"),
        ("low-level, and low-\nlevel too", "low-level, and low-level too"),
    ],
)
def test_a_word_that_is_broken_at_a_lines_end_is_whole(text: str, joined: str) -> None:
    assert with_paragraphs(text) == joined
