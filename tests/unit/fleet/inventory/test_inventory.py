"""Inventory values, and errors with file, line and key."""

from __future__ import annotations

import ast
import io
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from fleet.errors import FleetError
from fleet.inventory.hosts import WARNINGS, Bark, Inventory, Jump, Trainer, load
from fleet.inventory.monitoring_settings import AlertReceiver
from fleet.inventory.rollout_settings import HookSettings, MaxFailed, RolloutSettings
from tasks.base import load_inventory

ROOT = Path(__file__).resolve().parents[4]
GPU = "GPU-5f2c1d4e-0d2b-4c55-9a3a-2b1f6c7d8e90"

Read = Callable[[str], Inventory]


@pytest.fixture
def read(tmp_path: Path) -> Read:
    """Loads a text as an inventory."""

    def load_text(text: str) -> Inventory:
        path = tmp_path / "hosts.yaml"
        path.write_text(text)
        return load(path)

    return load_text


def test_the_example_is_a_good_inventory() -> None:
    inventory = load(ROOT / "deploy/hosts.example.yaml")
    first, second, third = inventory.hosts
    assert (first.name, first.roles, first.gpus, first.memory_policy) == (
        "gpu-01",
        ("trainer", "bark"),
        4,
        "recommended",
    )
    assert (second.memory_policy, second.gpus) == ("full", (GPU,))
    assert second.acknowledged == {"persistence"}
    assert second.jump == (Jump("bastion.example", 2222, "ops"),)
    assert second.exporter_address == "192.0.2.12"
    assert third.roles == ("monitoring",)
    assert {host.user for host in inventory.hosts} == {"voxyard"}
    assert [host.canary for host in inventory.hosts] == [True, False, False]
    assert inventory.rollout == RolloutSettings(batch=4, min_healthy_seconds=30)
    assert first.secrets == (ROOT / "deploy/secrets.yaml",)
    assert first.bark.weights == ROOT / "deploy/../build/weights/bark"
    assert first.bark.address is None
    assert second.bark.address == "192.0.2.12"
    assert second.bark.settings == {
        "service": {"retention_hours": 168, "disk_quota_mib": 20480},
        "bark": {"batch_size": 8},
    }
    assert first.trainer == Trainer(9411, 120)
    assert inventory.alert_receivers == (
        AlertReceiver("on-call", email="on-call@lab.example"),
        AlertReceiver("chat", webhook_url_file="/etc/voxyard/alert-chat"),
    )


def test_a_host_wins_over_the_defaults(read: Read) -> None:
    inventory = read("defaults: {user: a, port: 2200}\nhosts: {x: {address: h, port: 2201}, y: {address: i, user: b}}")
    assert [(host.user, host.port) for host in inventory.hosts] == [("a", 2201), ("b", 2200)]


def test_a_host_wins_key_by_key_below_bark_and_trainer(read: Read) -> None:
    (host,) = read(
        "defaults: {user: u, bark: {port: 81, settings: {bark: {batch_size: 2, retries: 1}, service: {rate_limit: 5}}}}"
        "\nhosts: {x: {address: h, bark: {stop_seconds: 9, settings: {bark: {batch_size: 3}}}, "
        "trainer: {stop_seconds: 7}}}"
    ).hosts
    assert host.bark == Bark(
        port=81, stop_seconds=9, settings={"bark": {"batch_size": 3, "retries": 1}, "service": {"rate_limit": 5}}
    )
    assert host.trainer == Trainer(metrics_port=9411, stop_seconds=7)


def test_paths_are_meant_from_the_inventory(read: Read, tmp_path: Path) -> None:
    text = "hosts: {x: {address: h, user: u, identity_file: key, known_hosts: /k, compose_overrides: [a.yaml]}}"
    (host,) = read(text).hosts
    assert host.identity_file == tmp_path / "key"
    assert host.known_hosts == Path("/k")
    assert host.compose_overrides == (tmp_path / "a.yaml",)


def test_the_operators_ssh_configuration_counts_only_where_it_is_wanted(read: Read) -> None:
    text = "defaults: {user: u, ssh_config: true}\nhosts: {x: {address: h}, y: {address: i, ssh_config: false}}"
    assert [host.ssh_config for host in read(text).hosts] == [True, False]
    (host,) = read("hosts: {x: {address: h, user: u}}").hosts
    assert not host.ssh_config


@pytest.mark.parametrize(
    ("defaults", "keys", "login"),
    [
        ("", "", ("ssh-user", 2222)),
        ("user: u", "", ("u", 2222)),
        ("port: 22", "user: v", ("v", 22)),
        ("", "user: v, port: 2200", ("v", 2200)),
        ("", "user: v, ssh_config: false", ("v", 22)),
    ],
)
def test_user_and_port_are_those_of_ssh_config_where_the_inventory_leaves_them_to_it(
    read: Read, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, defaults: str, keys: str, login: tuple[str, int]
) -> None:
    asked = tmp_path / "asked"
    ssh = f"#!/bin/sh\necho \"$@\" >> {shlex.quote(str(asked))}\nprintf 'host lab\\nuser ssh-user\\nport 2222\\n'\n"
    (tmp_path / "ssh").write_text(ssh)
    (tmp_path / "ssh").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    (host,) = read(f"defaults: {{ssh_config: true, {defaults}}}\nhosts: {{x: {{address: lab, {keys}}}}}").hosts
    assert (host.user, host.port) == login
    assert (asked.read_text().split() if asked.exists() else []) in ([], ["-G", "-N", "--", "lab"])


def test_an_address_of_ipv6_may_stand_in_brackets(read: Read) -> None:
    (host,) = read("hosts: {x: {address: '[2001:db8::1]', user: u, exporter_address: '[::1]'}}").hosts
    assert (host.address, host.exporter_address) == ("2001:db8::1", "::1")
    with pytest.raises(FleetError, match="is the address of x, too"):
        read("hosts: {x: {address: '[2001:db8::1]', user: u}, y: {address: '2001:db8:0::1', user: u}}")


DYNAMIC = '{"defaults": {"user": "u", "known_hosts": "known"}, "hosts": {"x": {"address": "h"}}}'


def test_an_inventory_may_be_standard_input(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(DYNAMIC.encode())))
    (host,) = load_inventory("-").hosts
    assert (host.name, host.known_hosts) == ("x", tmp_path / "known")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (f"#!/bin/sh\necho {shlex.quote(DYNAMIC)}\n", ""),
        (
            "#!/bin/sh\necho no such cloud >&2\nexit 3\n",
            "ended with exit code 3 (no such cloud): it must print the inv",
        ),
        ("#!/bin/sh\necho 'hosts: {x: {addres: h, user: u}}'\n", ":1: hosts.x.addres: unknown key: is address meant?"),
        (
            "#!/nowhere/python\n",
            "cannot be run (No such file or directory): expected a program that prints the inventory",
        ),
        ("#!/bin/sh\nprintf '\\377'\n", ":1: not UTF-8 text (byte 0xff): save it as UTF-8"),
        (DYNAMIC, ""),
    ],
    ids=["prints it", "fails", "prints a wrong one", "has no interpreter", "prints no text", "is none, and executable"],
)
def test_an_inventory_may_be_a_program_that_prints_it(tmp_path: Path, text: str, said: str) -> None:
    program = tmp_path / "hosts of the cloud"
    program.write_text(text)
    program.chmod(0o755)
    if said:
        with pytest.raises(FleetError) as caught:
            load(program)
        assert f"{program} {said}" in str(caught.value) or f"{program}{said}" in str(caught.value)
    else:
        assert [(host.name, host.known_hosts) for host in load(program).hosts] == [("x", tmp_path / "known")]


def test_a_slash_at_the_end_of_a_directory_says_nothing_more(read: Read) -> None:
    shared = "bark: {store: 'postgresql://v@db.lab/v', shelf: /mnt/v/}"
    keys = f"state_dir: /srv/voxyard/, registry: r.example:5000/speech/, {shared}"
    (found,) = read(f"hosts: {{a: {{address: h, user: u, roles: [bark], {keys}}}}}\n").hosts
    assert (found.state_dir, found.registry, found.bark.shelf) == ("/srv/voxyard", "r.example:5000/speech", "/mnt/v")


def test_jumps_are_a_text_or_a_list(read: Read) -> None:
    (host,) = read(
        "hosts: {x: {address: h, user: u, jump: ['first', 'me@[2001:db8::1]:2222', '[fe80::1%eth0]']}}"
    ).hosts
    assert host.jump == (Jump("first", 22, None), Jump("2001:db8::1", 2222, "me"), Jump("fe80::1%eth0"))


@pytest.mark.parametrize(
    ("keys", "complaint"),
    [
        ("rols: []", "hosts.a.rols: unknown key: is roles meant?"),
        ("port: 0", "hosts.a.port: expected a port from 1 to 65535, found 0"),
        ("port: yes", "hosts.a.port: expected a port from 1 to 65535, found the text 'yes'"),
        ("exporter_port: '9410'", "hosts.a.exporter_port: expected a port from 1 to 65535, found the text '9410'"),
        ("exporter_address: '-x'", "hosts.a.exporter_address: expected a name or an address, found the text '-x'"),
        ("exporter_address: 'u; rm'", "hosts.a.exporter_address: expected a name or an address"),
        ("exporter_address: 'h:22'", "hosts.a.exporter_address: expected a name or an address without a port, found"),
        (
            "exporter_address: u@h",
            "hosts.a.exporter_address: expected a name or an address, found the text 'u@h': user and",
        ),
        (
            "exporter_address: 'ssh://h'",
            "hosts.a.exporter_address: expected a name or an address, found the text 'ssh:",
        ),
        ("exporter_address: 'h\u00a0'", "hosts.a.exporter_address: expected a line of printable characters, found"),
        ("exporter_address: 192.0.2.300", "hosts.a.exporter_address: expected a name or an address, found the text"),
        ("exporter_address: '[::1'", "hosts.a.exporter_address: expected a name or an address, found the text"),
        ("exporter_address: '[192.0.2.1]'", "hosts.a.exporter_address: expected a name or an address, found the text"),
        ("exporter_address: '[gpu-01]'", "hosts.a.exporter_address: expected a name or an address, found the text"),
        ("sudo: true", "hosts.a.sudo: unknown key: nothing runs as root: put the user into the group docker"),
        ("ansible_become: true", "hosts.a.ansible_become: unknown key: nothing runs as root"),
        ("ansible_ssh_pass: hunter2", "hosts.a.ansible_ssh_pass: unknown key: logins are by key"),
        ("ansible_host: h", "hosts.a.ansible_host: unknown key: is address meant?"),
        ("hostname: h", "hosts.a.hostname: unknown key: is address meant?"),
        (
            "ansible_ssh_private_key_file: k",
            "hosts.a.ansible_ssh_private_key_file: unknown key: is identity_file meant?",
        ),
        ("proxy_jump: b", "hosts.a.proxy_jump: unknown key: is jump meant?"),
        ("labels: [b]", "hosts.a.labels: unknown key: is groups meant?"),
        ("<<: {port: 22}", "hosts.a.<<: unknown key: merge keys are not taken: what hosts share stands under defaults"),
        ("strict_host_key_checking: no", "hosts.a.strict_host_key_checking: unknown key: host keys are always checked"),
        ("ssh_common_args: -A", "hosts.a.ssh_common_args: unknown key: options of ssh are those of ~/.ssh/config"),
        ("ssh_password: x", "hosts.a.ssh_password: unknown key: logins are by key, certificate or Kerberos"),
        ("state_dir: state", "hosts.a.state_dir: expected the whole path of a directory on the host, found the text"),
        ("state_dir: '~/x'", "hosts.a.state_dir: expected the whole path of a directory on the host, found the text"),
        ("bark: {address: '[::1]:80'}", "hosts.a.bark.address: expected a name or an address without a port, found"),
        ("port: 0022", "hosts.a.port: expected a port from 1 to 65535, a plain decimal number, found the number 0022"),
        ("port: 1:22", "hosts.a.port: expected a port from 1 to 65535, found the text '1:22'"),
        ("port: 0x16", "hosts.a.port: expected a port from 1 to 65535, a plain decimal number, found the number 0x16"),
        ("gpus: 010", "hosts.a.gpus: expected a count or a list of UUIDs, found the number 010"),
        (
            "bark: {settings: {service: {rate_limit: 1:30}}}",
            "hosts.a.bark.settings.service.rate_limit: found the text '1:30'",
        ),
        (
            "acknowledged: [presistence]",
            "hosts.a.acknowledged: expected the id of a warning of `make check`, found the text 'presistence': is "
            "persistence meant?",
        ),
        ("acknowledged: [mig]", "hosts.a.acknowledged: expected the id of a warning of `make check`, found the text"),
        (
            "identity_file: ~nosuchuser/key",
            "hosts.a.identity_file: found ~nosuchuser/key, but this machine has no user nosuchuser: write the whole",
        ),
        (
            "roles: [boss]",
            "hosts.a.roles: expected one of trainer, bark, monitoring, gateway, head, worker, custom, found the text "
            "'boss'",
        ),
        ("roles: trainer", "hosts.a.roles: expected a list, found the text 'trainer': write [trainer]"),
        (
            "roles: 'bark, trainer'",
            "hosts.a.roles: expected a list, found the text 'bark, trainer': write [bark, trainer]",
        ),
        ("roles: [bark, bark]", "hosts.a.roles: the list has a duplicate entry"),
        ("memory_policy: all", "hosts.a.memory_policy: expected one of recommended, full, found the text 'all'"),
        ("gpus: [0]", "hosts.a.gpus: expected a GPU's UUID as nvidia-smi -L prints it, found 0"),
        ("gpus: two", "hosts.a.gpus: expected a count or a list of UUIDs, found the text 'two'"),
        ("gpus: -1", "hosts.a.gpus: expected a count or a list of UUIDs, found -1"),
        ("jump: 'a b'", "hosts.a.jump: expected [user@]address[:port], or a list of them, found the text 'a b'"),
        (
            "jump: 'a.example,b.example'",
            "hosts.a.jump: expected [user@]address[:port], or a list of them, found the text",
        ),
        (
            "jump: none",
            "hosts.a.jump: expected [user@]address[:port], found the text 'none': a host without a jump host",
        ),
        ("jump: 'a:70000'", "hosts.a.jump: expected a port from 1 to 65535, found 70000"),
        ("ssh_config: ours", "hosts.a.ssh_config: expected true or false, found the text 'ours'"),
        ("identity_file: {}", "hosts.a.identity_file: expected a string, found a mapping"),
        ("bark: {prt: 1}", "hosts.a.bark.prt: unknown key: is port meant?"),
        ("bark: 5", "hosts.a.bark: expected keys with values, found 5"),
        ("bark: {port: 0}", "hosts.a.bark.port: expected a port from 1 to 65535, found 0"),
        (
            "bark: {stop_seconds: 1}",
            "hosts.a.bark.stop_seconds: expected seconds (15 of them, at most half, for closing down, the rest for "
            "running work) from 2 to 3600, found 1",
        ),
        ("trainer: {stop_seconds: 0}", "hosts.a.trainer.stop_seconds: expected seconds from 1 to 3600, found 0"),
        ("bark: {settings: {speach: {}}}", "hosts.a.bark.settings.speach: unknown key: is speech meant?"),
        (
            "bark: {settings: {bark: {batchsize: 1}}}",
            "hosts.a.bark.settings.bark.batchsize: unknown key: is batch_size meant?",
        ),
        (
            "bark: {settings: {bark: {batch_size: 0}}}",
            "hosts.a.bark.settings.bark.batch_size: found 0, expected auto or a whole number from 1 to 128",
        ),
        (
            "bark: {settings: {bark: {batch_size: '4'}}}",
            "hosts.a.bark.settings.bark.batch_size: found the text '4', expected auto or a whole",
        ),
        (
            "bark: {settings: {bark: {capture: jit}}}",
            "hosts.a.bark.settings.bark.capture: found the text 'jit', expected one of auto, none, graph",
        ),
        (
            "bark: {settings: {bark: {threads: [1]}}}",
            "hosts.a.bark.settings.bark.threads: found a list, expected a whole number from 1",
        ),
        (
            "bark: {settings: {service: {port: 1}}}",
            "hosts.a.bark.settings.service.port: set by the deployment: use bark.port",
        ),
        (
            "bark: {settings: {bark: {gpu_memory: '1'}}}",
            "hosts.a.bark.settings.bark.gpu_memory: set by the deployment: use memory_policy",
        ),
        ("trainer: {metrics_port: x}", "hosts.a.trainer.metrics_port: expected a port from 1 to 65535, found the text"),
        ("trainer: {port: 5}", "hosts.a.trainer.port: unknown key, known are metrics_port, stop_seconds"),
        ("registry: 'https://r'", "hosts.a.registry: expected a registry as host[:port][/path], in lower case"),
        (
            "registry: myorg",
            "hosts.a.registry: expected a registry as host[:port][/path], in lower case (docker.io/NAME)",
        ),
        (
            "registry: myorg/speech",
            "hosts.a.registry: expected a registry as host[:port][/path], in lower case (docker.io/NAME)",
        ),
        (
            "registry: R/x",
            "hosts.a.registry: expected a registry as host[:port][/path], in lower case (docker.io/NAME), found",
        ),
        ("secrets: [[x]]", "hosts.a.secrets: expected a string, found a list"),
        ("secrets: [x, ./x]", "hosts.a.secrets: the list has a duplicate entry"),
        ("canary: 1", "hosts.a.canary: expected true or false, found 1"),
        (
            "roles: [bark], exporter_port: 8080",
            "hosts.a: port 8080 is used by the exporter and by the speech service",
        ),
        ("roles: [bark, trainer], trainer: {metrics_port: 8080}", "hosts.a: port 8080 is used by the speech service"),
        ("exporter_port: 9100", "hosts.a: port 9100 is used by the exporter and by the host's node_exporter"),
        ("roles: [monitoring], exporter_port: 9090", "hosts.a: port 9090 is used by the exporter and by Prometheus"),
        ("port: 22,\n  port: 23", "4: hosts.a.port stands here a second time, first on line 3"),
        ("ssh_config: yes", "hosts.a.ssh_config: expected true or false, found the text 'yes'"),
        ("registry:", "hosts.a.registry: expected a value, found nothing"),
        ("groups: [0x1a]", "hosts.a.groups: expected a name, found the number 0x1a"),
    ],
)
def test_a_wrong_value_is_named_with_host_key_and_line(read: Read, keys: str, complaint: str) -> None:
    with pytest.raises(FleetError) as caught:
        read(f"hosts:\n  a: {{address: h, user: u,\n  {keys}}}\n")
    line = "" if complaint.startswith("4:") else "3: "
    assert f"hosts.yaml:{line}{complaint}" in str(caught.value)
    assert caught.value.exit_code == 2


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("hosts:\n  a:\n    user: u", "2: hosts.a.address: missing, and no default is given"),
        ("hosts: {a: {address: h}}", "1: hosts.a.user: missing, and no default is given"),
        ("hosts: {'a/b': {address: h, user: u}}", "1: hosts.a/b: a host name has letters, digits"),
        ("hosts: {a: 5}", "1: hosts.a: expected keys with values, found 5"),
        (
            "hosts: [{name: a}]",
            "1: hosts: expected keys with values, found a list: write it without dashes, as NAME: VALUE",
        ),
        ("all: {children: {gpu: {}}}", "1: all: unknown key: is hosts meant?"),
        ("[gpu]\ngpu-1 ansible_host=h\n", "2: text after the end of the document: expected keys with values"),
        ("defaults: {user: u}", "1: hosts: expected at least one host"),
        ("", "1: hosts: expected at least one host"),
        ("- a", "1: expected keys with values, found a list"),
        ("defaults: {address: h}", "1: defaults.address: unknown key"),
        ("hots: {}", "1: hots: unknown key: is hosts meant?"),
        ("alert_receivers: [{name: n}]", "1: alert_receivers[0]: expected a name, and either"),
        ("alert_receivers: [{name: n, pager: 1}]", "1: alert_receivers[0].pager: unknown key"),
        (
            "alert_receivers: [{name: n, email: on-call}]",
            "1: alert_receivers[0].email: expected a mail address, found 'on",
        ),
        (
            "alert_receivers: [{name: n, email: a@b}, {name: n, email: c@d}]",
            "1: alert_receivers[1].name: n is the name of another receiver, too",
        ),
        ("monitoring: {runbook_url: runbook.md}", "1: monitoring.runbook_url: expected a URL without #"),
        ("monitoring: {runbook_url: 'https://a/b#c'}", "1: monitoring.runbook_url: expected a URL without #"),
        ("alert_receivers: {}", "1: alert_receivers: expected a list, found a mapping"),
        ("rollout: {batch: 0}\nhosts: {a: {address: h, user: u}}", "1: rollout.batch: expected a number of hosts from"),
        (
            "rollout: {min_healthy_seconds: 0}\nhosts: {a: {address: h, user: u}}",
            "1: rollout.min_healthy_seconds: expected seconds from 1 to 3600, found 0",
        ),
        ("rollout: {size: 1}\nhosts: {a: {address: h, user: u}}", "1: rollout.size: unknown key"),
        ("defaults: {canary: true}\nhosts: {a: {address: h, user: u}}", "1: defaults.canary: unknown key"),
        ("defaults: {bark: {address: h}}\nhosts: {a: {address: h, user: u}}", "1: defaults.bark.address: unknown key"),
        ("hosts: [", "1: not YAML"),
        ("hosts: !!python/none x", "1: the tag tag:yaml.org,2002:python/none is not taken here"),
        ("hosts: &a {a: *a}", " an alias stands within its own anchor"),
        ("hosts:\n  a: \x00", "2: control character U+0000, expected text"),
    ],
)
def test_a_file_that_is_no_inventory_says_where(read: Read, text: str, complaint: str) -> None:
    with pytest.raises(FleetError) as caught:
        read(text)
    assert f"hosts.yaml:{complaint}" in str(caught.value)


def test_all_mistakes_are_named_at_once_in_the_order_of_their_lines(read: Read) -> None:
    with pytest.raises(FleetError) as caught:
        read("defaults: {prot: 1}\nhosts:\n  a: {address: h, user: 5}\n  b: {address: h, user: u, port: x}\n")
    lines = str(caught.value).splitlines()
    assert [line.split(":")[1] for line in lines] == ["1", "3", "4"]


def test_anchors_and_aliases_are_taken(read: Read) -> None:
    inventory = read(
        "defaults: {user: u}\nhosts: {a: {address: h, roles: &all [bark, trainer]}, b: {address: i, roles: *all}}"
    )
    assert [host.roles for host in inventory.hosts] == [("bark", "trainer")] * 2


def test_one_mistake_is_said_once(read: Read) -> None:
    for text, said in (
        ("hosts:\n- {name: a}\n", "hosts.yaml:1: hosts: expected keys with values, found a list"),
        ("defaults: {user: a b}\nhosts: {a: {address: h}}", "hosts.yaml:1: defaults.user: expected a name, found"),
    ):
        with pytest.raises(FleetError) as caught:
            read(text)
        (line,) = str(caught.value).splitlines()
        assert said in line


def test_a_user_may_be_one_of_a_domain(read: Read) -> None:
    assert read("hosts: {a: {address: h, user: ops@corp.example}}").hosts[0].user == "ops@corp.example"


def test_a_misspelt_key_is_not_missing_too(read: Read) -> None:
    with pytest.raises(FleetError) as caught:
        read("hosts:\n  a: {adress: h, user: u}\n")
    assert str(caught.value).endswith("hosts.yaml:2: hosts.a.adress: unknown key: is address meant?")
    assert len(str(caught.value).splitlines()) == 1


def test_a_wrong_entry_of_a_list_is_named_by_its_own_line(read: Read) -> None:
    with pytest.raises(FleetError, match=r"hosts.yaml:6: hosts.a.groups: expected a name, found the text 'b c'"):
        read("hosts:\n  a:\n    address: h\n    user: u\n    groups: [a,\n      b c]\n")


def test_a_clash_of_ports_names_the_line_of_the_port(read: Read) -> None:
    with pytest.raises(FleetError, match=r"hosts.yaml:7: hosts.a: port 9410 is used by the exporter and by the sp"):
        read("hosts:\n  a:\n    address: h\n    user: u\n    roles: [bark]\n    bark:\n      port: 9410\n")


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("{address: h}", "{address: h}"),
        ("{address: h}", "{address: H.}"),
        ("{address: h}", "{address: h, user: other}"),
        ("{address: '2001:db8::1'}", "{address: '2001:DB8:0::1'}"),
        ("{address: h, jump: b}", "{address: h, jump: 'other@b:22'}"),
    ],
)
def test_two_hosts_with_one_address_are_refused_with_the_line_of_the_second(
    read: Read, first: str, second: str
) -> None:
    with pytest.raises(FleetError, match=r"hosts.yaml:4: hosts.b.address: .*, is the address of a, too: one entry a"):
        read(f"defaults: {{user: u}}\nhosts:\n  a: {first}\n  b: {second}\n")


def test_one_address_behind_other_ports_or_other_jump_hosts_is_another_host(read: Read) -> None:
    addresses = ["{address: h}", "{address: h, port: 23}", "{address: h, jump: b}", "{address: h, jump: c}"]
    found = read("defaults: {user: u}\nhosts:\n" + "".join(f"  n{i}: {each}\n" for i, each in enumerate(addresses)))
    assert len(found.hosts) == 4


@pytest.mark.parametrize("address", ["h", "gpu-02.lab.example", "10.0.0.1", "2001:db8::1", "fe80::1%eth0", "1und1.de"])
def test_an_address_is_a_name_or_an_ip_address(read: Read, address: str) -> None:
    assert read(f"hosts: {{a: {{address: '{address}', user: u}}}}").hosts[0].address == address


def test_warnings_that_can_be_acknowledged_are_those_of_the_checks() -> None:
    levels: dict[str, set[str]] = {}
    for path in (ROOT / "scripts/fleet/checks").glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "Finding":
                level, check = node.args[:2]
                words = {each.value for each in ast.walk(level) if isinstance(each, ast.Constant)}
                if isinstance(check, ast.Constant):
                    levels.setdefault(str(check.value), set()).update(map(str, words))
    assert {check for check, found in levels.items() if "WARN" in found} == set(WARNINGS)
    assert tuple(sorted(WARNINGS)) == WARNINGS


def test_ports_of_roles_that_a_host_does_not_have_clash_with_nothing(read: Read) -> None:
    (host,) = read("hosts: {a: {address: h, user: u, exporter_port: 8080, bark: {port: 8080}}}").hosts
    assert {each.what: each.port for each in host.listeners} == {"the exporter": 8080, "the host's node_exporter": 9100}


@pytest.mark.parametrize(
    "registry", ["registry.example", "10.0.0.1:5000", "registry.example:5000/a/b-c", "localhost:5000"]
)
def test_a_registry_is_a_host_with_port_and_path(read: Read, registry: str) -> None:
    (host,) = read(f"hosts: {{a: {{address: h, user: u, registry: '{registry}'}}}}").hosts
    assert host.registry == registry


def test_reading_an_inventory_imports_neither_torch_nor_the_service() -> None:
    program = (
        "import sys; from pathlib import Path; from fleet.inventory.hosts import load; load(Path(sys.argv[1]));"
        "print([each for each in ('torch', 'transformers', 'fastapi', 'numpy', 'tensorflow') if each in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(ROOT / "deploy/hosts.example.yaml")],
        cwd=ROOT / "scripts", capture_output=True, text=True, check=True, timeout=120,
    )  # fmt: skip
    assert done.stdout.strip() == "[]"


def test_a_missing_inventory_says_how_to_begin(tmp_path: Path) -> None:
    with pytest.raises(FleetError, match=r"no such inventory: copy deploy/hosts\.example\.yaml there"):
        load(tmp_path / "none.yaml")


def test_a_file_that_is_no_text_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "hosts.yaml"
    path.write_bytes(b"hosts:\n  \xff\n")
    with pytest.raises(FleetError, match="2: not UTF-8"):
        load(path)


def test_a_key_that_is_no_name_is_refused(read: Read) -> None:
    with pytest.raises(FleetError, match=r"hosts\.yaml:2: .*expected a name before the colon"):
        read("hosts:\n  ? [a, b]\n  : {address: h}\n")


def test_a_file_of_more_than_a_mebibyte_is_no_inventory(tmp_path: Path) -> None:
    path = tmp_path / "hosts.yaml"
    path.write_bytes(b"#" * ((1 << 20) + 1))
    with pytest.raises(FleetError, match="larger than 1 MiB, which is no settings file"):
        load(path)


def test_four_hosts_are_deployed_at_a_time_unless_it_is_said(read: Read) -> None:
    assert read("defaults: {user: u}\nhosts: {x: {address: h}}").rollout == RolloutSettings(4, 30)


def test_a_folder_is_no_inventory(tmp_path: Path) -> None:
    with pytest.raises(FleetError, match="is a directory, expected a YAML file"):
        load(tmp_path)


def test_hosts_are_selected_by_name_in_the_inventorys_order(read: Read) -> None:
    inventory = read("defaults: {user: u}\nhosts: {a: {address: h}, b: {address: i}, c: {address: j}}")
    assert [host.name for host in inventory.select(["c", "a"])] == ["a", "c"]
    assert [host.name for host in inventory.select([])] == ["a", "b", "c"]
    with pytest.raises(FleetError, match=r"no host d in .*: expected one of a, b, c"):
        inventory.select(["a", "d"])


def test_hosts_are_selected_by_group_beside_those_that_are_named(read: Read) -> None:
    inventory = read(
        "defaults: {user: u, groups: [all]}\nhosts: {a: {address: h, groups: [berlin, a100]}, b: {address: i}, "
        "c: {address: j, groups: [berlin]}}"
    )
    assert inventory.groups == ("berlin", "a100", "all")
    assert [host.name for host in inventory.select([], ["berlin"])] == ["a", "c"]
    assert [host.name for host in inventory.select(["b"], ["a100"])] == ["a", "b"]
    with pytest.raises(FleetError, match=r"no group paris in .*: expected one of berlin, a100, all"):
        inventory.select([], ["paris"])
    with pytest.raises(FleetError, match=r"no group berlin in .*: no host has groups"):
        read("hosts: {a: {address: h, user: u}}").select([], ["berlin"])


@pytest.mark.parametrize(
    ("text", "expected", "of_nine"),
    [
        ("2", MaxFailed(2), 2),
        ("10%", MaxFailed(percent=10), 0),
        ("34 %", MaxFailed(percent=34), 3),
        ("0", MaxFailed(), 0),
    ],
)
def test_hosts_that_may_fail_are_a_number_or_a_share(read: Read, text: str, expected: MaxFailed, of_nine: int) -> None:
    found = read(f"hosts: {{a: {{address: h, user: u}}}}\nrollout: {{max_failed: {text}}}").rollout.max_failed
    assert (found, found.of(9)) == (expected, of_nine)


def test_hooks_are_argument_lists_whose_paths_are_meant_from_the_inventory(read: Read, tmp_path: Path) -> None:
    hooks = read(
        "hosts: {a: {address: h, user: u}}\n"
        "rollout: {hooks: {before: [[hooks/pool, remove], [curl, -f, '']], after: [[/opt/pool, add]], seconds: 5}}"
    ).rollout.hooks
    before = ((str(tmp_path / "hooks/pool"), "remove"), ("curl", "-f", ""))
    assert hooks == HookSettings(before, (("/opt/pool", "add"),), 5, tmp_path)


@pytest.mark.parametrize(
    ("keys", "complaint"),
    [
        ("max_failed: 101%", "rollout.max_failed: expected a number of hosts from 0 to 1000, or a share such as 10%"),
        ("max_failed: -1", "rollout.max_failed: expected a number of hosts from 0 to 1000"),
        ("max_failed: yes", "found the text 'yes'"),
        ("max_failed: 0.1", "found 0.1"),
        ("hooks: {befor: []}", "rollout.hooks.befor: unknown key: is before meant?"),
        ("hooks: {before: pool remove}", "rollout.hooks.before: expected a list of commands, found the text"),
        ("hooks: {before: [pool, remove]}", "expected a command as a list of arguments, such as [/usr/local/bin/pool"),
        ('hooks: {after: [[pool, "a\\0b"]]}', "an argument has a NUL character"),
        ("hooks: {after: [[pool, 3]]}", "found 3 as an argument: put it in quotes"),
        ("hooks: {after: [[]]}", "found an empty list"),
        ("hooks: {after: [['']]}", "rollout.hooks.after: expected a string, found the text ''"),
        ("hooks: {seconds: 0}", "rollout.hooks.seconds: expected seconds from 1 to 3600, found 0"),
    ],
)
def test_settings_of_a_rollout_are_checked(read: Read, keys: str, complaint: str) -> None:
    with pytest.raises(FleetError, match=re.escape(complaint)):
        read(f"hosts: {{a: {{address: h, user: u}}}}\nrollout: {{{keys}}}")


@pytest.mark.parametrize("groups", ["berlin", "[a b]", "[x, x]"])
def test_groups_are_a_list_of_names(read: Read, groups: str) -> None:
    with pytest.raises(FleetError, match=r"hosts\.a\.groups: "):
        read(f"hosts: {{a: {{address: h, user: u, groups: {groups}}}}}")
