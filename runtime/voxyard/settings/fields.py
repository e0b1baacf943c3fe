"""Setting definitions: each is one field of a section, with its flag, unit and sentence."""

from __future__ import annotations

import types
from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Union, get_args, get_origin

import annotated_types
from pydantic import BaseModel, ConfigDict, Field
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

PREFIX = "VOXYARD_"
GROUPS = ("TRAIN", "SPEAK", "SPEECH", "BARK", "SERVICE", "EXPORTER")
"""Prefixes of environment variables after VOXYARD_: one for each group of settings."""


class Section(BaseModel):
    """A frozen group of settings that refuses names it does not know.

    The model handed to `load` is a section whose fields are sections: they are the sections of its YAML file.
    `group` is the prefix of its environment variables after VOXYARD_, one of `GROUPS`.
    """

    group: ClassVar[str] = ""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, protected_namespaces=())


def setting(
    default: Any = PydanticUndefined,
    description: str = "",
    *,
    flag: str | None = None,
    variable: str | None = None,
    unit: str | None = None,
    default_text: str | None = None,
    default_factory: Callable[[], Any] | None = None,
    **constraints: Any,
) -> Any:
    """A field of a section.

    `flag` is the flag where it is not `--` and the field's name with dashes; the environment variable follows group
    and flag (`--buffer-size` of TRAIN → VOXYARD_TRAIN_BUFFER_SIZE) unless `variable` names it. `default_text` says in
    words what the default is where its value does not (None, or computed). `constraints` are pydantic's (`ge`, …).
    """
    told = {"flag": flag, "variable": variable, "unit": unit, "default_text": default_text}
    extra: dict[str, Any] = {name: text for name, text in told.items() if text is not None}
    if default_factory is not None:
        return Field(default_factory=default_factory, description=description, json_schema_extra=extra, **constraints)
    return Field(default, description=description, json_schema_extra=extra, **constraints)


@dataclass(frozen=True, slots=True)
class Setting:
    """All that is known of one setting, wherever it is to be read, shown or checked."""

    section: str
    name: str
    group: str  # prefix of the environment variables after VOXYARD_
    flag: str
    variable: str  # of the environment
    description: str
    unit: str | None
    default_text: str
    annotation: Any
    constraints: tuple[Any, ...]
    default: Callable[[], Any]

    @property
    def key(self) -> str:
        """Canonical name: section and name, as in `training.batch_size`."""
        return f"{self.section}.{self.name}"

    @property
    def group_and_flag(self) -> str:
        """Group and flag as a variable would be named without exceptions: VOXYARD_TRAIN_TRAIN_DATA, which is none."""
        return variable_of("", f"{self.group}-{self.flag.removeprefix('--')}")

    @property
    def off_flag(self) -> str:
        """The flag that turns a switch off."""
        return f"--no-{self.flag.removeprefix('--')}"

    @property
    def kinds(self) -> tuple[Any, ...]:
        """The types that a value may have, None left out."""
        return tuple(kind for kind in _alternatives(self.annotation) if kind is not types.NoneType)

    @property
    def is_switch(self) -> bool:
        """True for an on/off switch."""
        return self.kinds == (bool,)

    @property
    def may_be_none(self) -> bool:
        """True where None is one of its values."""
        return types.NoneType in _alternatives(self.annotation)

    @property
    def choices(self) -> tuple[str, ...]:
        """The words to choose from; empty where any value of the type will do."""
        return tuple(str(word) for kind in self.kinds if get_origin(kind) is Literal for word in get_args(kind))

    def expected(self) -> str:
        """Description of a valid value, in words: `a whole number from 1 to 64`."""
        words = [f"one of {', '.join(self.choices)}" if len(self.choices) > 1 else each for each in self.choices[:1]]
        words += [_KIND_WORDS.get(kind, str(kind)) for kind in self.kinds if get_origin(kind) is not Literal]
        return " or ".join(words) + _range_words(self.constraints)


def settings_of(model: type[Section]) -> tuple[Setting, ...]:
    """The settings of `model`, section by section, in the order they are written.

    Raises TypeError for a model that cannot be used: a field that is no section, or two settings with one
    flag.
    """
    found: list[Setting] = []
    for section, model_field in model.model_fields.items():
        kind = section_type(model, section, model_field)
        found += [_read(section, name, field, kind.group) for name, field in kind.model_fields.items()]
    flags = [each.flag for each in found]
    twice = sorted({flag for flag in flags if flags.count(flag) > 1})
    if twice:
        raise TypeError(f"{model.__name__}: more than one setting has the flag {', '.join(twice)}")
    return tuple(found)


def flags_of(config: Section, *, leave_out: Collection[str] = ()) -> tuple[str, ...]:
    """Command line flags for every setting of `config` that differs from its default, but the keys in `leave_out`."""
    words: list[str] = []
    for each in settings_of(type(config)):
        value: Any = getattr(getattr(config, each.section), each.name)
        if value is None or value == each.default() or each.key in leave_out:
            continue
        if each.is_switch:
            words.append(each.flag if value else each.off_flag)
        else:
            words += [each.flag, str(value)]
    return tuple(words)


def section_type(model: type[Section], section: str, field: FieldInfo | None = None) -> type[Section]:
    """The class of one section of `model`."""
    kind = (field or model.model_fields[section]).annotation
    if not (isinstance(kind, type) and issubclass(kind, Section)):
        raise TypeError(f"{model.__name__}.{section} is no section: settings are read as section.key")
    return kind


def variable_of(group: str, flag: str) -> str:
    """The environment variable of a flag: `--seed` of BARK → VOXYARD_BARK_SEED, `--train-data` → VOXYARD_TRAIN_DATA."""
    words = flag.removeprefix("--").replace("-", "_").upper()
    return PREFIX + (words if not group or words.startswith(f"{group}_") else f"{group}_{words}")


def _read(section: str, name: str, field: FieldInfo, group: str) -> Setting:
    extra = field.json_schema_extra if isinstance(field.json_schema_extra, dict) else {}
    flag, variable, unit, default_text = (extra.get(part) for part in ("flag", "variable", "unit", "default_text"))
    flag = str(flag) if flag else "--" + name.replace("_", "-")

    def default() -> Any:
        return field.get_default(call_default_factory=True, validated_data={})

    return Setting(
        section=section,
        name=name,
        group=group,
        flag=flag,
        variable=str(variable) if variable else variable_of(group, flag),
        description=field.description or "",
        unit=str(unit) if unit else None,
        default_text=str(default_text) if default_text else default_words(default()),
        annotation=field.annotation,
        constraints=(*field.metadata, *_constraints(field.annotation)),
        default=default,
    )


def _alternatives(annotation: Any) -> tuple[Any, ...]:
    if get_origin(annotation) in (Union, types.UnionType):
        return tuple(kind for each in get_args(annotation) for kind in _alternatives(each))
    return (get_args(annotation)[0] if get_origin(annotation) is Annotated else annotation,)


def _constraints(annotation: Any) -> tuple[Any, ...]:
    """Constraints that stand at one of several alternatives: `Literal["auto"] | Annotated[int, Field(ge=1)]`."""
    if get_origin(annotation) in (Union, types.UnionType):
        return tuple(constraint for each in get_args(annotation) for constraint in _constraints(each))
    if get_origin(annotation) is not Annotated:
        return ()
    return tuple(constraint for each in get_args(annotation)[1:] for constraint in getattr(each, "metadata", (each,)))


def default_words(value: Any) -> str:
    """A default as help and guides show it."""
    if value is None or value == "":
        return "none"
    if isinstance(value, bool):
        return "on" if value else "off"
    return str(value)


def _range_words(constraints: tuple[Any, ...]) -> str:
    low = high = ""
    for each in constraints:
        match each:
            case annotated_types.Ge(ge=bound):
                low = f"from {bound}"
            case annotated_types.Gt(gt=bound):
                low = f"above {bound}"
            case annotated_types.Le(le=bound):
                high = f"to {bound}" if low.startswith("from") else f"up to {bound}"
            case annotated_types.Lt(lt=bound):
                high = f"below {bound}"
    if low.startswith("from") and not high:
        return f" of at least {low.removeprefix('from ')}"
    if low and high and not high.startswith("to"):
        return f" {low} and {high}"
    return "".join(f" {part}" for part in (low, high) if part)


_KIND_WORDS: dict[Any, str] = {
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    str: "text",
    Path: "a path",
}
