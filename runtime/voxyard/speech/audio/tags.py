"""Tags of an audio file: its title, artist and album, as players show them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Tags:
    """Tags of a file; what is None is left out. `artist` is a book's author, `album` the book of a chapter."""

    title: str | None = None
    artist: str | None = None
    album: str | None = None

    def metadata(self) -> dict[str, str]:
        """FFmpeg's names of those that there are."""
        return {name: value for name, value in vars(self).items() if value}


NO_TAGS = Tags()
