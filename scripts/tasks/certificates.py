"""`fab certificates`: certificates of the hosts and of the gateway, from an authority of the fleet's own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fabric import task

from fleet.certificates import Made, make
from fleet.command_line import fab
from fleet.inventory.hosts import Inventory
from tasks.base import HELP, load_inventory, print_json, reporting_errors, say, split_names


@task(
    iterable=["name"],
    auto_shortflags=False,
    help={
        "name": "DNS name or address by which clients know the gateway; repeat the option or separate names with "
        "commas [default: those of its certificate, when renewing]",
        "new-authority": "make another authority; the files of the one before stay, with a number",
        "drop": "names of the earlier certificates may be gone",
        "inventory": HELP["inventory"],
        "json": HELP["json"],
    },
)
def certificates(
    _: Any,
    name: Sequence[str] | None = None,
    new_authority: bool = False,
    drop: bool = False,
    inventory: str = "",
    json: bool = False,
) -> None:
    """Make or renew the certificates of all hosts and of the gateway, in certificates.yaml beside the inventory."""
    with reporting_errors():
        fleet = load_inventory(inventory)
        made = make(fleet.path.parent, fleet.hosts, split_names(name), new_authority=new_authority, drop=drop)
        if json:
            print_json(_document(made))
            return
        _report(fleet, made)


def _report(fleet: Inventory, made: Made) -> None:
    if made.new_authority:
        say(
            f"new authority: {made.authority}, and its key beside it: keep both; clients trust the gateway by the first"
        )
    say(f"{made.path}: until {made.until:%Y-%m-%d}, for {', '.join(made.host_names)}")
    if made.gateway_names:
        say(f"of the gateway: for {', '.join(made.gateway_names)}")
    elif any("gateway" in host.roles for host in fleet.hosts):
        say("no certificate of the gateway is in it: name it with --name, or keep one of your own in another file")
    if made.own:
        say(f"left out, with a host-certificate of their own: {', '.join(made.own)}")
    if made.roots > 1:
        say(f"host-ca has {made.roots} roots: remove the old ones from it once nothing uses them")
    if made.until == made.authority_until:
        say("the authority itself ends then: make another soon, with --new-authority")
    paths = {host.name: [path.resolve() for path in host.secrets] for host in fleet.hosts if host.name not in made.own}
    if lacking := [host for host, secrets in paths.items() if made.path not in secrets]:
        say(f"add {made.path.name} to the list of secrets of {', '.join(lacking)} in {fleet.path}")
    say(f"then: {fab()} check, {fab()} deploy")


def _document(made: Made) -> dict[str, object]:
    return {
        "file": str(made.path),
        "authority": str(made.authority),
        "new_authority": made.new_authority,
        "own_certificates": list(made.own),
        "roots": made.roots,
        "until": made.until.isoformat(timespec="seconds"),
        "host_names": list(made.host_names),
        "gateway_names": list(made.gateway_names),
    }
