"""User and port of a host from the operator's own ssh_config, where the inventory leaves them to it."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Mapping

from fleet.errors import FleetError
from fleet.inventory.types import is_address
from voxyard.settings.yaml_reader import YamlValue

_SECONDS = 20  # a Match may run a program


def of_ssh_config(entry: YamlValue, defaults: Mapping[str, YamlValue]) -> Mapping[str, YamlValue]:
    """Those of `user` and `port` that neither the host's entry nor the defaults give, as ssh itself reads them.

    None without `ssh_config: true`, and without ssh, which a login then misses. Raises FleetError where ssh refuses.
    """
    given = {**defaults, **(entry.value if isinstance(entry.value, dict) else {})}
    wanted = {"user", "port"} - set(given)
    reads, address = (given[key].value if key in given else None for key in ("ssh_config", "address"))
    if reads is not True or not wanted or not is_address(address) or shutil.which("ssh") is None:
        return {}
    found = {}
    for line in _asked(str(address)).splitlines():
        name, _, value = line.partition(" ")
        if name in wanted:
            found[name] = YamlValue(entry.line, int(value) if name == "port" else value, value)
    return found


def _asked(address: str) -> str:
    words = ["ssh", "-G", "-N", "--", address.removeprefix("[").removesuffix("]")]
    try:
        done = subprocess.run(words, capture_output=True, text=True, timeout=_SECONDS, check=False)
    except subprocess.TimeoutExpired:
        raise FleetError(
            f"{' '.join(words)} does not end: a Match of ~/.ssh/config runs a program that waits"
        ) from None
    if done.returncode != 0:
        raise FleetError(f"ssh cannot read its configuration ({done.stderr.strip()}): correct that file")
    return done.stdout
