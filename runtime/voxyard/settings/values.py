"""One value against one setting: texts leniently, values of a file strictly, and the words for a misfit."""

from __future__ import annotations

import functools
import json
import math
import operator
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError

from voxyard.settings.errors import SettingsError
from voxyard.settings.fields import Setting


def from_text(setting: Setting, value: object) -> Any:
    """A value of a flag or variable: `"8"` is the number 8 where a number is expected.

    Raises SettingsError with the words for what was found and expected.
    """
    return _checked(setting, value, strict=False)


def from_file(setting: Setting, value: object) -> Any:
    """A value read from YAML: `"8"` in quotes is a text and no number.

    Raises SettingsError with the words for what was found and expected.
    """
    if value is None:  # `batch_size:` with nothing behind it: the default, whatever the host plan says
        return None if setting.may_be_none else setting.default()
    return _checked(setting, value, strict=True)


def path_of(text: str) -> Path:
    """The path of a text. A leading ~ is the home, which a shell leaves in `--out=~/a.wav` and within quotes.

    Where no such user is known it is a name, as for a shell, and in ./~/a.wav too.
    """
    return Path(os.path.expanduser(text))  # noqa: PTH111 (Path's refuses ~lock.wav, and takes ./~ for the home)


def found_words(value: object) -> str:
    """Name of a value in a message, short and printable."""
    match value:
        case None:
            return "nothing"
        case bool():
            return "true" if value else "false"
        case str():
            return f"the text {_short(value)}"
        case dict():
            return "a mapping"
        case list():
            return "a list"
        case float() if not math.isfinite(value):
            return "a number that is not finite"
        case int() if abs(value) >= 10**30:
            return "a number of more than 30 digits"
        case _:
            return _short(value)


def _checked(setting: Setting, value: object, *, strict: bool) -> Any:
    if value is None and setting.may_be_none:
        return None
    if isinstance(value, str) and "\0" in value:
        raise SettingsError(f"found a text with a NUL character, expected {setting.expected()}")
    if value == "" and Path in setting.kinds:  # "$FOLDER" of a shell that has none, and no name for this folder
        raise SettingsError(f"found an empty text, expected {setting.expected()}")
    try:
        adapter = _adapter(setting.kinds, setting.constraints)
        # In JSON mode "strict" takes a path or a word of a Literal from a text, which is all that YAML has.
        good = adapter.validate_json(json.dumps(value), strict=True) if strict else adapter.validate_python(value)
    except (ValidationError, ValueError, TypeError):
        raise SettingsError(f"found {found_words(value)}, expected {setting.expected()}") from None
    home = isinstance(good, Path) and str(value).startswith("~")  # in ./~/x it is a name
    return _home_expanded(good) if home else good


def _home_expanded(path: Path) -> Path:
    try:
        return path.expanduser()
    except RuntimeError:
        raise SettingsError(f"found {_short(str(path))}, but there is no such user's home directory") from None


def _short(value: object) -> str:
    text = ascii(value) if isinstance(value, str) and not value.isprintable() else repr(value)
    return text if len(text) <= 60 else text[:57] + "…"


@functools.cache
def _adapter(kinds: tuple[Any, ...], constraints: tuple[Any, ...]) -> TypeAdapter[Any]:
    config = ConfigDict(allow_inf_nan=False)
    if len(kinds) == 1:
        return TypeAdapter(_annotated(kinds[0], constraints), config=config)
    bound = [_annotated(kind, constraints if kind in (int, float) else ()) for kind in kinds]  # a range is for numbers
    either = _annotated(functools.reduce(operator.or_, bound), (Field(union_mode="left_to_right"),))
    return TypeAdapter(either, config=config)


def _annotated(kind: Any, metadata: Iterable[Any]) -> Any:
    for each in metadata:
        kind = Annotated[kind, each]
    return kind
