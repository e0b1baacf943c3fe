"""Shared parts of every command: common options, error output and exit codes, lazily loaded groups."""

from __future__ import annotations

import importlib
import importlib.util
import logging
import math
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import click

if TYPE_CHECKING:
    from voxyard.settings import Section

log = logging.getLogger("voxyard.cli")

CHECK_FAILED = 1
WRONG_USE = 2
INTERRUPTED = 130

CONTEXT = {"help_option_names": ["-h", "--help"], "max_content_width": 110}


class HomePath(click.Path):
    """A path. A leading ~ is the home; an empty text, such as "$FOLDER" of a shell that has none, is refused."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The path. Raises click.BadParameter."""
        if value == "":
            self.fail("found an empty text, expected a path", param, ctx)
        from voxyard.settings import path_of

        return super().convert(path_of(value), param, ctx)


PATH = HomePath(path_type=Path)


def config_option(sections: str) -> Callable[[Any], Any]:
    """Option `--config`, for a YAML file with these sections."""
    text = f"Settings as a YAML file, {sections}."
    return click.option("--config", type=PATH, envvar="VOXYARD_CONFIG", metavar="FILE", help=text)


CONFIG = config_option("sections model, data, training, telemetry")
JSON = click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")


class NumberRange(click.FloatRange):
    """A range of numbers. NaN is in none of them; click's own comparisons let it pass."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """The number. Raises click.BadParameter."""
        number: float = super().convert(value, param, ctx)
        if math.isnan(number):
            self.fail(f"{value} is not in the range {self._describe_range()}.", param, ctx)
        return number


Entries = Mapping[str, tuple[str, str]]  # name → its sentence, and `module:attribute` of the command


class LazyGroup(click.Group):
    """A group that imports a command when it is asked for: --help loads no settings and no libraries."""

    def __init__(self, *args: Any, entries: Entries, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.entries = entries
        self.commands = dict.fromkeys(entries, click.Command(None))  # for click's "Did you mean": their names alone

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Names in the order they are written down."""
        return list(self.entries)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command, imported now."""
        if cmd_name not in self.entries:
            return None
        module, _, name = self.entries[cmd_name][1].partition(":")
        with answering(cmd_name):
            command: click.Command = getattr(importlib.import_module(module), name)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The commands with their sentences, none of them built."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, sentence) for name, (sentence, _) in self.entries.items()])


@contextmanager
def answering(command: str, *, extra: str = "trainer,cpu", needs: str | None = None) -> Iterator[None]:
    """Turns an error that a user can cause into a sentence on standard error and an exit code.

    A room's errors are meant for the user: they bear the exit code. `extra` names the packages the command needs;
    `needs` is one that only its workers import, and without which nothing is begun.
    """
    try:
        if needs is not None and importlib.util.find_spec(needs) is None:
            raise ModuleNotFoundError(name=needs)
        yield
    except (click.ClickException, click.exceptions.Exit):
        raise
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package in ("", "voxyard"):
            raise
        refuse(command, f"needs {package}, which is not installed: {_install(package, extra)}", WRONG_USE)
    except Exception as error:
        code = getattr(error, "exit_code", None)
        if code is None:
            raise
        refuse(command, str(error), code)


def require_writable(**files: Path | None) -> None:
    """Ends the command where a file, named by its option, cannot be written; before any work.

    A file that is there stays as it is, and none is left where there was none, nor a folder: the writer makes it.
    Raises click.UsageError (exit code 2).
    """
    for option, path in files.items():
        if path is None:
            continue
        made: list[Path] = []
        try:
            for folder in reversed((path.parent, *path.parent.parents)):
                if not folder.exists():
                    folder.mkdir()
                    made.insert(0, folder)
            there = path.exists()
            path.open("ab").close()
            if not there:
                path.unlink()
        except OSError as error:
            raise click.UsageError(f"--{option} {path} cannot be written: {error.strerror}") from error
        finally:
            for folder in made:
                folder.rmdir()


def require_kept(written: Mapping[str, Path | None], settings: Section | None = None) -> None:
    """Ends the command where a file that it writes is one that it reads, or is written twice.

    `written` has what help calls each. Read are the other paths of the command line and of `settings`; links and other
    spellings are seen through. Raises click.UsageError (exit code 2).
    """
    for what, path in written.items():
        for name, other in _paths(settings):
            if path is not None and other is not None and path is not other and _same(path, other):
                raise click.UsageError(f"{what} {path} would replace {name} {other}: name another file")


def _paths(settings: Section | None) -> Iterator[tuple[str, Path | None]]:
    """Paths of the command line and of settings, each with the name that help has for it."""
    context = click.get_current_context()
    for each in context.command.params:
        if isinstance(each.type, click.Path):
            name = max(each.opts, key=len) if isinstance(each, click.Option) else (each.name or "").upper()
            yield name, context.params[each.name or ""]
    if settings is not None:
        from voxyard.settings import settings_of

        for setting in settings_of(type(settings)):
            value = getattr(getattr(settings, setting.section), setting.name)
            if isinstance(value, Path):
                yield setting.flag, value


def _same(one: Path, other: Path) -> bool:
    try:
        return one.samefile(other)
    except OSError:  # one is not there yet
        return os.path.realpath(one) == os.path.realpath(other)


def require_folder(**folders: Path) -> None:
    """Ends the command where a folder, named by its option, can be neither there nor be made: a file is in its place.

    Raises click.UsageError (exit code 2).
    """
    for option, path in folders.items():
        found = next(each for each in (path.absolute(), *path.absolute().parents) if each.exists())
        if not found.is_dir():
            flag = option.replace("_", "-")
            raise click.UsageError(f"--{flag} {path}: {found} is a file, expected a folder, or a name for a new one")


def _install(package: str, extra: str) -> str:
    if package == "torch":
        return f"make setup TORCH=auto in voxyard's directory, or pip install 'voxyard[{extra}]'"
    if extra != "trainer,cpu":
        return f"pip install 'voxyard[{extra}]'"
    return "pip install 'voxyard[trainer,cpu]', or 'voxyard[trainer,gpu]', which downloads several GB of CUDA packages"


def clock(seconds: float) -> str:
    """Human-readable duration: 9.4 s, 3:07 min, 1:02:09 h."""
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02} h" if hours else f"{minutes}:{rest:02} min"


@contextmanager
def progress_bar(what: str) -> Iterator[Callable[[int, int], None]]:
    """A bar on a terminal's standard error, driven by (done, of how many)."""
    from rich.console import Console
    from rich.progress import Progress

    console = Console(stderr=True)
    with Progress(console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task(what, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


def log_notes(notes: Iterable[str]) -> None:
    """Writes the notes of loaded settings (old keys, variables without effect) to standard error, a line each."""
    for note in notes:
        log.info("%s", note)


def refuse(command: str, message: str, code: int) -> NoReturn:
    """End the command with a message on standard error and an exit code."""
    for line in message.splitlines():
        print(f"voxyard {command}: {line}", file=sys.stderr)
    raise click.exceptions.Exit(code)
