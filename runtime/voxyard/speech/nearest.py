"""Names that are like an unknown one, for messages."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable

_COMPARED = 60  # characters of an unknown name, which may be long


def nearest(name: str, known: Iterable[str], most: int = 3) -> list[str]:
    """The known names most like this one: the same in another case, those it begins, those with like letters.

    A name also begins where a part of it does: `en` those of `en-us` and `v2/en_speaker_6`.
    """
    wanted = name[:_COMPARED].casefold()
    folded = {each: each.casefold() for each in known}
    same = [each for each, form in folded.items() if form == wanted]
    begins = re.compile(rf"(?:^|[^a-z0-9]){re.escape(wanted)}") if len(wanted) > 1 and len(name) <= _COMPARED else None
    begun = [] if same or begins is None else [each for each, form in folded.items() if begins.search(form)]
    begun.sort(key=lambda each: not folded[each].startswith(wanted))
    spelled = {form: each for each, form in reversed(folded.items())}
    like = [] if len(begun) >= most else difflib.get_close_matches(wanted, spelled, n=most)
    return list(dict.fromkeys((*same, *begun, *(spelled[form] for form in like))))[:most]
