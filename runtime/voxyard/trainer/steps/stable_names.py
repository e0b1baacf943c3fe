"""Names of TensorFlow's functions that are the same in every process, by which compiled code is found again.

XLA's cache on disk finds a function by its name and its instructions (`BuildSerializedCacheKey` in
device_executable_persistor.h), and TensorFlow's names end in a number that counts what was traced before
(`ops.uid`). Threads trace in another order each time: without these names most would be compiled again.
"""

from __future__ import annotations

import hashlib
import itertools
import logging
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from tensorflow.python.framework import ops  # there is no public way to name a function

log = logging.getLogger("voxyard.trainer")

_BITS, _SPACE = 38, 24  # of a name's own numbers; of the numbers within one name
_current = threading.local()
_counting = threading.Lock()
_used: Counter[str] = Counter()


@contextmanager
def stable_names(key: str) -> Iterator[None]:
    """Scope in which what this thread traces is numbered by `key` alone, and by how often this process had it before.

    A process with several runs traces functions of one key that are not the same, and must not have one name for both.
    """
    before = getattr(_current, "numbers", None)
    with _counting:
        _used[key] += 1
        digest = int.from_bytes(hashlib.sha256(f"{key} {_used[key]}".encode()).digest()[:8])
    _current.numbers = itertools.count((digest % 2**_BITS) << _SPACE)
    try:
        yield
    finally:
        _current.numbers = before


def _number() -> int:
    numbers = getattr(_current, "numbers", None)
    return int(_count_all() if numbers is None else next(numbers))


if hasattr(ops, "uid"):
    _count_all = ops.uid
    ops.uid = _number
else:
    log.debug("this TensorFlow numbers its functions in another way: compiled code is found less often")
