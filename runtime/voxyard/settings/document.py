"""The settings as Markdown tables, for runtime/SETTINGS.md, and as an example of their file."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Collection

from voxyard.settings.fields import Section, Setting, default_words, section_type, settings_of


def markdown(model: type[Section], *, leave_out: Collection[str] = ()) -> str:
    """A table for each section of `model` but those left out: YAML key, flag, variable, values, default, meaning."""
    parts: list[str] = []
    for section in (name for name in model.model_fields if name not in leave_out):
        sentence = (section_type(model, section).__doc__ or "").strip().partition("\n")[0]
        rows = [_row(each) for each in settings_of(model) if each.section == section]
        parts += [f"**`{section}`**: {sentence}", "", *_HEAD, *rows, ""]
    return "\n".join(parts)


_HEAD = ("| key | flag | variable | values | default | what |", "|---|---|---|---|---|---|")


def _row(setting: Setting) -> str:
    flag = f"`{setting.flag}`<br>`{setting.off_flag}`" if setting.is_switch else f"`{setting.flag}`"
    values = setting.expected() + (f" ({setting.unit})" if setting.unit else "")
    default = setting.default_text
    cells = (f"`{setting.key}`", flag, f"`{setting.variable}`", values, default, setting.description)
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def example_file(model: type[Section]) -> str:
    """A YAML file that names every setting of `model` and sets none: `#key: default` below what it means.

    A default that depends on the host or the corpus is left empty, and its words stand behind it.
    """
    parts: list[str] = []
    for section in model.model_fields:
        sentence = (section_type(model, section).__doc__ or "").strip().partition("\n")[0]
        parts += ["", f"# {sentence}", f"{section}:"]
        for each in (each for each in settings_of(model) if each.section == section):
            values = each.expected() + (f" ({each.unit})" if each.unit else "")
            words = f"{each.description} {values[0].upper()}{values[1:]}."
            parts += textwrap.wrap(words, 118, initial_indent="  # ", subsequent_indent="  # ", break_on_hyphens=False)
            parts.append(f"  #{each.name}: {_yaml(each)}".rstrip())
    return "\n".join(parts).lstrip() + "\n"


def _yaml(setting: Setting) -> str:
    value = setting.default()
    if value is None or default_words(value) != setting.default_text:
        return "" if setting.default_text == default_words(None) else f" # by default: {setting.default_text}"
    if isinstance(value, bool | int | float):
        return json.dumps(value)
    return str(value)
