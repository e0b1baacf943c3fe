"""Fact: a shell command and the parser of its output."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

from fleet.ssh.command_batch import TIMED_OUT, Answer, Command

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


@dataclass(frozen=True, slots=True)
class Unknown:
    """Placeholder for an unavailable fact, with the reason."""

    reason: str


class UnexpectedError(ValueError):
    """The output of a command is not what was expected; the text says that, not Python's words for it."""


class UnusableError(ValueError):
    """What was read is not a fact; its text says all that there is to say of it."""


@dataclass(frozen=True, slots=True)
class Fact(Generic[T_co]):
    """One fact about a host. `parse` raises UnexpectedError, or another ValueError, for unexpected output.

    `usable`: tells of the output of a command that failed whether it is the fact all the same, such as rows of GPUs of
    which one is lost; None: it never is. `warns`: exit codes that are warnings, not failures.
    """

    name: str
    text: str
    parse: Callable[[str], T_co]
    seconds: int = 20
    usable: Callable[[T_co], bool] | None = None
    warns: frozenset[int] = frozenset()

    @property
    def command(self) -> Command:
        """Command that reads the fact."""
        return Command(self.name, self.text, self.seconds)

    def read(self, answer: Answer) -> T_co | Unknown:
        """Parsed fact, or Unknown with the reason."""
        ok = answer.ok or answer.code in self.warns
        if not ok and (self.usable is None or answer.code == TIMED_OUT):
            return Unknown(answer.message)
        try:
            found = self.parse(answer.out)
        except UnusableError as error:
            return Unknown(str(error) if ok else answer.message)
        except (ValueError, LookupError, TypeError, AttributeError) as error:
            if not ok:
                return Unknown(answer.message)
            said = " ".join(answer.out.split())[:200] or "no output"
            why = f" ({error})" if isinstance(error, UnexpectedError) else ""
            return Unknown(f"{self.name}: unexpected output{why}: {said}")
        if not ok and self.usable is not None and not self.usable(found):
            return Unknown(answer.message)
        return found

    def among(self, answers: Mapping[str, Answer]) -> T_co | Unknown:
        """Fact from the answers of a batch."""
        return self.read(answers[self.name])


def known(value: T | Unknown, otherwise: T) -> T:
    """The value, or `otherwise` where it is unknown."""
    return otherwise if isinstance(value, Unknown) else value
