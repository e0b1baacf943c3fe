"""Import of `package.module:factory` from a setting, where it is needed and nowhere else."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

from voxyard.speech.errors import SpeechError


def check_factory(what: str, factory: str) -> tuple[str, str]:
    """Module and name; `what` is what the factory makes, for the message.

    Raises:
        SpeechError: that is no `package.module:factory`.
    """
    module, colon, name = factory.partition(":")
    if not (module and colon and name):
        raise SpeechError(f"{what} {factory!r}: expected package.module:factory")
    return module, name


def find_factory(what: str, factory: str) -> Callable[..., Any]:
    """The factory itself.

    Raises:
        SpeechError: there is no such module or factory.
    """
    module, name = check_factory(what, factory)
    try:
        found: Callable[..., Any] = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise SpeechError(f"{what} {factory}: {error}; expected package.module:factory") from error
    return found
