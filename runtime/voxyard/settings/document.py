"""The settings as Markdown tables, for runtime/SETTINGS.md."""

from __future__ import annotations

from collections.abc import Collection

from voxyard.settings.fields import Section, Setting, section_type, settings_of


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
