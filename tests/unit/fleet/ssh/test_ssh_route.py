"""ssh configuration files of a route: every hop is checked, the operator's configuration only on request."""

from __future__ import annotations

import shlex
import stat
from pathlib import Path

import pytest
from fleet_doubles import host

from fleet.errors import FleetError
from fleet.inventory.hosts import Jump, load
from fleet.ssh.route import Hop, Route, route_to

pytestmark = pytest.mark.needs("ssh")

EXAMPLE = Path(__file__).resolve().parents[4] / "deploy/hosts.example.yaml"


@pytest.fixture
def key(tmp_path: Path) -> Path:
    """A file that stands for a private key, of a name that tries ssh's syntax."""
    path = tmp_path / "it's 100% mine"
    path.touch()
    return path


def options(route: Route, hop: Hop) -> dict[str, str]:
    """Options that ssh gets for a hop."""
    words = route.login(hop)
    assert words[:2] == ["ssh", "-F"]
    lines = Path(words[2]).read_text().splitlines()
    return dict(line.split(" ", 1) for line in lines if not line.startswith("Include "))


def test_each_host_of_the_example_as_shipped_has_a_way() -> None:
    for each in load(EXAMPLE).hosts:
        with route_to(each) as route:
            assert route.command[-2:] == ["-l", "voxyard"]
            assert "IdentityFile" not in options(route, route.hops[-1])


def test_a_login_reads_no_configuration_and_accepts_no_unknown_key(tmp_path: Path, key: Path) -> None:
    known = tmp_path / "known hosts"
    known.touch()
    with route_to(host(known_hosts=known, identity_file=key)) as route:
        found = options(route, route.hops[-1])
        assert stat.S_IMODE(route.folder.stat().st_mode) == 0o700
        assert "Include" not in Path(route.command[2]).read_text()
    assert found["StrictHostKeyChecking"] == "yes"
    assert found["BatchMode"] == "yes"
    assert found["UserKnownHostsFile"] == f'"{known}"'
    assert found["GlobalKnownHostsFile"] == "/dev/null"
    assert found["IdentityFile"] == '"' + str(key).replace("%", "%%") + '"'
    assert found["IdentitiesOnly"] == "yes"
    assert not route.folder.exists()


@pytest.mark.parametrize(("address", "target"), [("::1", "root@[::1]:2299"), ("192.0.2.1", "root@192.0.2.1:2299")])
def test_an_address_of_ipv6_stands_in_brackets_before_its_port(address: str, target: str) -> None:
    assert Hop(0, address, "root", 2299).target == target


def test_without_files_of_its_own_a_host_uses_the_operators_keys() -> None:
    with route_to(host()) as route:
        assert not {"IdentityFile", "IdentitiesOnly", "UserKnownHostsFile", "ProxyCommand"} & set(
            options(route, route.hops[-1])
        )


def test_jumps_are_gone_through_one_by_one_each_key_checked(key: Path) -> None:
    jumps = (Jump("bastion.example", 2222, "ops"), Jump("2001:db8::7"))
    with route_to(host(jump=jumps, identity_file=key)) as route:
        assert [hop.target for hop in route.hops] == [
            "ops@bastion.example:2222",
            "voxyard@[2001:db8::7]:22",
            "voxyard@192.0.2.11:22",
        ]
        for hop in route.hops:
            found = options(route, hop)
            assert found["StrictHostKeyChecking"] == "yes"
            assert found["IdentitiesOnly"] == "yes"
            if hop.number > 0:
                before = route.hops[hop.number - 1]
                words = shlex.split(found["ProxyCommand"].replace("%%", "%"))
                assert words[: len(route.login(before))] == route.login(before)
                assert words[-3:] == [before.address, "-W", "[%h]:%p"]


def test_the_operators_own_configuration_comes_after_the_rules_and_only_where_it_is_wanted() -> None:
    with route_to(host(ssh_config=True)) as route:
        text = Path(route.command[2]).read_text()
    rules, include, files = text.partition("Include ")
    assert include
    assert files.startswith("~/.ssh/config\n")
    assert "StrictHostKeyChecking yes\n" in rules


def test_without_ssh_one_sentence_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with (
        pytest.raises(FleetError, match=r"ssh is not installed on this machine: .*apt-get install openssh-client"),
        route_to(host()),
    ):
        pass


def test_a_key_that_is_not_there_is_named(tmp_path: Path) -> None:
    key = tmp_path / "fleet"
    said = "fleet: no such file, named as identity_file of gpu-01"
    with pytest.raises(FleetError, match=said), route_to(host(identity_file=key)):
        pass
    key.with_name("fleet.pub").touch()
    with route_to(host(identity_file=key)):
        pass  # the private half is the agent's


def test_a_folder_too_long_for_a_socket_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    deep = tmp_path / ("d" * 80)
    deep.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(deep))
    with pytest.raises(FleetError, match="set TMPDIR to a shorter path"), route_to(host()):
        pass
