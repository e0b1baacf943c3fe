"""Settings of the monitoring hosts: receivers of alerts, and the address under which the runbook is read."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated

from pydantic import TypeAdapter

from fleet.inventory.types import Matching, Text
from fleet.inventory.validation import ErrorCollector, keys_of, plain
from voxyard.settings.values import found_words
from voxyard.settings.yaml_reader import YamlValue

Url = Annotated[str, Matching(r"https?://[^\s#{}'\"]+", "a URL without #, such as https://git.lab.example/runbook.md")]


@dataclass(frozen=True, slots=True)
class AlertReceiver:
    """Alert receiver: a mail address, or a file on the monitoring host that contains a webhook URL."""

    name: Text
    email: Text | None = None
    webhook_url_file: Text | None = None


@dataclass(frozen=True, slots=True)
class MonitoringSettings:
    """Settings of all monitoring hosts of a fleet."""

    runbook_url: Url | None = None  # of deploy/prometheus/runbook.md as operators read it; None: its path there


_RECEIVER = TypeAdapter(AlertReceiver)
_RECEIVER_KEYS = keys_of(AlertReceiver)


def read_receivers(node: YamlValue | None, problems: ErrorCollector) -> Iterable[AlertReceiver]:
    """The receivers of the inventory; what is wrong goes to `problems`."""
    if node is None or node.value is None:
        return
    if not isinstance(node.value, list):
        problems.add(node.line, "alert_receivers", f"expected a list, found {found_words(plain(node))}")
        return
    names = set[str]()
    for number, entry in enumerate(node.value):
        where = f"alert_receivers[{number}]"
        receiver = problems.validated(_RECEIVER, _RECEIVER_KEYS, entry, where)
        if receiver is not None:
            if (receiver.email is None) == (receiver.webhook_url_file is None):
                problems.add(entry.line, where, "expected a name, and either email or webhook_url_file")
            if receiver.email is not None and not re.fullmatch(r"[^@\s]+@[^@\s]+", receiver.email):
                problems.add(entry.line, f"{where}.email", f"expected a mail address, found {receiver.email!r}")
            if receiver.name in names:
                problems.add(entry.line, f"{where}.name", f"{receiver.name} is the name of another receiver, too")
            names.add(receiver.name)
            yield receiver
