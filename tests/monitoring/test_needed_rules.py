"""Rules that a replay leaves out are those that cannot have a result, or one that nothing reads."""

from __future__ import annotations

import pytest
from needed_rules import needed

SERIES = ("""up{job="node",instance="gpu-01"}""", """load{job="node",instance="gpu-01",kind="io"}""")


def recorded(name: str, expression: str, **labels: str) -> dict[str, object]:
    return {"record": name, "expr": expression, "labels": labels}


def alert(expression: str, **labels: str) -> dict[str, object]:
    return {"alert": "Told", "expr": expression, "labels": labels}


@pytest.mark.parametrize(
    ("asked", "rules", "kept"),
    [
        ("a:b:c", [recorded("a:b:c", "up"), recorded("a:b:d", "up"), alert("up == 0")], [0]),
        ("a:b:d > 1", [recorded("a:b:c", "up"), recorded("a:b:d", "rate(a:b:c[5m])")], [0, 1]),
        ("a:b:d", [recorded("a:b:d", "a:b:c"), recorded("a:b:c", "up")], [0, 1]),  # in whatever order
        ("ALERTS", [alert("up == 0"), alert("down == 1"), recorded("a:b:c", "up")], [0]),
        (
            "a:b:c",
            [recorded("a:b:c", "down"), recorded("a:b:c", "up and down"), recorded("a:b:c", "down or up")],
            [1, 2],
        ),
        ("a:b:d", [recorded("a:b:c", "down"), recorded("a:b:d", "a:b:c")], []),
        (
            "a:b:c",
            [recorded("a:b:c", "vector(1)"), recorded("a:b:c", "absent(down)"), recorded("a:b:c", "1")],
            [0, 1, 2],
        ),
        ("a:b:c", [recorded("a:b:c", "scalar(down)"), recorded("a:b:c", "down or vector (0)")], [0, 1]),
        ("a:b:c", [recorded("a:b:c", 'up{job="bark"}'), recorded("a:b:c", 'up{job!="bark"}')], [1]),
        ("a:b:c", [recorded("a:b:c", 'up{job=~"no.*"}'), recorded("a:b:c", 'up{job!~"no.*"}')], [0]),
        ("a:b:c", [recorded("a:b:c", 'up{kind=""}'), recorded("a:b:c", 'load{kind=""}')], [0]),
        ("a:b:c", [recorded("a:b:c", '{job="node"}')], [0]),  # of any name
        ('a:b:c{of="x"}', [recorded("a:b:c", "up", of="x"), recorded("a:b:c", "up", of="y")], [0]),
        ('a:b:c{of="x"}', [recorded("a:b:c", "up")], [0]),  # which may have the label from its series
        ('a:b:c{of="x"}', [recorded("a:b:c", "up", of="{{ $labels.of }}")], [0]),
        ("a:b:d", [recorded("a:b:c", "up", of="x"), recorded("a:b:d", 'a:b:c{of="y"}')], []),
        ('ALERTS{alertname="Told"}', [alert("up"), alert("up", severity="none")], [0, 1]),
        ('ALERTS{alertname!~"Told|Other"}', [alert("up")], []),
        ('ALERTS{severity="critical"}', [alert("up", severity="critical"), alert("up", severity="none")], [0]),
    ],
)
def test_only_rules_that_are_read_and_fed_are_kept(asked: str, rules: list[dict[str, object]], kept: list[int]) -> None:
    found = needed([{"name": "one", "rules": rules}, {"name": "other", "rules": []}], [asked], SERIES)
    assert found == ([{"name": "one", "rules": [rules[place] for place in kept]}] if kept else [])
