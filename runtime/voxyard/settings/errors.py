"""The one exception of the settings."""

from __future__ import annotations

from collections.abc import Iterable


class SettingsError(Exception):
    """Settings that cannot be used; `problems` holds one sentence each, all of them found in one go."""

    exit_code: int = 2

    def __init__(self, problems: str | Iterable[str]) -> None:
        self.problems = (problems,) if isinstance(problems, str) else tuple(problems)
        super().__init__("\n".join(self.problems))
