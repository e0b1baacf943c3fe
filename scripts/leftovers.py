"""Name the packages of this environment that nothing asks for any more: pip leaves them when a requirement goes."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Mapping
from importlib.metadata import distributions

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

OWN = "voxyard"
TOOLS = ("pip", "setuptools", "wheel")  # what an environment begins with


def main(arguments: list[str] | None = None) -> int:
    """Print one line, or nothing where everything is asked for; always 0."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("wanted", nargs="*", help="packages that were installed by name, beside all that voxyard names")
    wanted = parser.parse_args(arguments).wanted
    installed = {canonicalize_name(each.metadata["Name"]): each for each in distributions()}
    requires: dict[str, tuple[Requirement, ...]] = {
        name: tuple(map(Requirement, each.requires or ())) for name, each in installed.items()
    }
    extras = installed[canonicalize_name(OWN)].metadata.get_all("Provides-Extra") or []
    left = leftovers(requires, [f"{OWN}[{','.join(extras)}]", *wanted, *TOOLS])
    if left:
        print(f"nothing asks for these packages any more: {sys.executable} -m pip uninstall {' '.join(left)}")
    return 0


def leftovers(requires: Mapping[str, Iterable[Requirement]], roots: Iterable[str]) -> list[str]:
    """The names in `requires` (installed package → what it asks for) that no root leads to, sorted."""
    open_, seen = [Requirement(each) for each in roots], set[tuple[str, str]]()
    while open_:
        asked = open_.pop()
        name = canonicalize_name(asked.name)
        for extra in ("", *asked.extras):
            if name in requires and (name, extra) not in seen:
                seen.add((name, extra))
                open_ += [each for each in requires[name] if _applies(each, extra)]
    return sorted(set(requires) - {name for name, _ in seen})


def _applies(requirement: Requirement, extra: str) -> bool:
    return requirement.marker is None or requirement.marker.evaluate({"extra": extra})


if __name__ == "__main__":
    sys.exit(main())
