"""What lies in place of a file that was to be downloaded: a pointer, a web page, nothing."""

from __future__ import annotations

POINTER = b"version https://git-lfs.github.com/spec/"
_PAGES = (b"<!doctype", b"<html", b"<?xml", b'{"error')


def instead(head: bytes) -> str | None:
    """What a file that begins with these bytes is, in words to follow its name; None where it may be the right one."""
    if not head:
        return "is empty: download it again"
    if head.startswith(POINTER):
        return "is a pointer of Git LFS, not the file: run `git lfs pull` in its clone, or download the file itself"
    if head.lstrip().lower().startswith(_PAGES):
        return "is a web page, not the file: download it again"
    return None
