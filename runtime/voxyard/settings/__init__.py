"""Settings: one definition each, from which flag, variable, YAML key, help and documentation come."""

from __future__ import annotations

from voxyard.settings.aliases import Alias
from voxyard.settings.document import example_file, markdown
from voxyard.settings.errors import SettingsError
from voxyard.settings.fields import Section, Setting, flags_of, setting, settings_of
from voxyard.settings.flags import SettingOption, SettingsCommand, options
from voxyard.settings.load import CONFIG_VARIABLE, HOST_PLAN_VARIABLE, Loaded, load
from voxyard.settings.typed_command import TypedCommand, typed_command
from voxyard.settings.values import path_of

__all__ = [
    "CONFIG_VARIABLE",
    "HOST_PLAN_VARIABLE",
    "Alias",
    "Loaded",
    "Section",
    "Setting",
    "SettingOption",
    "SettingsCommand",
    "SettingsError",
    "TypedCommand",
    "example_file",
    "flags_of",
    "load",
    "markdown",
    "options",
    "path_of",
    "setting",
    "settings_of",
    "typed_command",
]
