"""Objectives: the rules are those of the table, and a table that cannot be used is refused."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

import objectives


def test_the_committed_rules_are_those_of_the_table() -> None:
    assert objectives.main(["--check"]) == 0


def test_another_target_is_another_rule(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table, rules = tmp_path / "objectives.yaml", tmp_path / "rules.yaml"
    table.write_text(objectives.TABLE.read_text(encoding="utf-8").replace("target: 0.995", "target: 0.95"))
    rules.write_text(objectives.RULES.read_text(encoding="utf-8"))
    assert objectives.main(["--check"], table=table, rules=rules) == 1
    assert "make objectives" in capsys.readouterr().err
    assert objectives.main([], table=table, rules=rules) == 0
    assert objectives.main(["--check"], table=table, rules=rules) == 0
    made = yaml.safe_load(rules.read_text(encoding="utf-8"))
    described = [rule["annotations"]["description"] for rule in made["groups"][-1]["rules"]]
    assert len(described) == 6
    assert sum("what 0.95 allows" in each for each in described) == 2


def test_an_objective_can_be_taken_out(tmp_path: Path) -> None:
    table, rules = tmp_path / "objectives.yaml", tmp_path / "rules.yaml"
    text = objectives.TABLE.read_text(encoding="utf-8")
    table.write_text(text[: text.index("first_sound:")] + text[text.index("streams:") :])
    assert objectives.main([], table=table, rules=rules) == 0
    made = yaml.safe_load(rules.read_text(encoding="utf-8"))["groups"][-1]["rules"]
    assert {each["labels"]["family"] for each in made} == {"objective-streams", "objective-documents"}


ALERTS = {  # target of the documents → rates of their alerts
    "0.99": {"DocumentsBudgetBurns": ["14.4", "6"], "DocumentsBudgetErodes": ["3", "1"]},
    "0.9": {"DocumentsBudgetBurns": ["6"], "DocumentsBudgetErodes": ["3", "1"]},
    "0.8": {"DocumentsBudgetErodes": ["3", "1"]},
    "0.5": {"DocumentsBudgetErodes": ["1"]},
    "0.01": {"DocumentsBudgetErodes": ["1"]},
}


@pytest.mark.parametrize("target", ALERTS)
def test_only_what_can_come_true_is_a_rule(tmp_path: Path, capsys: pytest.CaptureFixture[str], target: str) -> None:
    table, rules = tmp_path / "objectives.yaml", tmp_path / "rules.yaml"
    table.write_text(objectives.TABLE.read_text(encoding="utf-8").replace("target: 0.995", f"target: {target}"))
    assert objectives.main([], table=table, rules=rules) == 0
    made = yaml.safe_load(rules.read_text(encoding="utf-8"))["groups"][-1]["rules"]
    found = {
        each["alert"]: re.findall(r"burn:rate(?:1h|6h|1d|3d)\S+ > (\S+)\n +and \S+burn", each["expr"]) for each in made
    }
    assert {name: rates for name, rates in found.items() if name.startswith("Documents")} == ALERTS[target]
    left_out = {"DocumentsBudgetBurns"} - ALERTS[target].keys()
    told = [
        f"DocumentsBudgetBurns is left out: 6 times what {target} allows is more than all events." for _ in left_out
    ]
    assert capsys.readouterr().out.splitlines() == told
    assert all(f"# {each}\n" in rules.read_text(encoding="utf-8") for each in told)


TARGET, ALL = "target: 0.99\n", "all: voxyard_service_stream_underrun_seconds_count\n"
SHARE = "expected a share from 0.01 to 0.9999"
FIELDS = "expected alert, title, bad, target, all, good"
REFUSED = [  # text of the table, what stands there instead → what is said behind the line's number
    *(
        (TARGET, f"target: {target}\n", f"streams.target: found {found}, {SHARE}")
        for target, found in {
            "1": "1", "0": "0", "100": "100", "-1": "-1", ".nan": ".nan", ".inf": ".inf",
            "0.9999999999": "0.9999999999",
            "0.001": "0.001", "97%": "the text '97%'", '"0.97"': "the text '0.97'", "null": "null", "": "nothing",
            "true": "true", "[0.9]": "a list",
        }.items()
    ),
    (f"  {TARGET}", "", f"streams.target: found nothing, {SHARE}"),
    (f"  {ALL}", "", "streams.all: found nothing, expected a counter"),
    (ALL, "all: sum(x)\n", "streams.all: found the text 'sum(x)', expected a counter"),
    (TARGET, f"{TARGET}  window: 30d\n", f"streams.window: found this key, {FIELDS}"),
    (TARGET, f"{TARGET}  target: 0.98\n", "streams.target stands here a second time, first on line"),
    ("documents:\n", "streams:\n", "streams stands here a second time, first on line"),
    ("streams:\n", "Streams-1:\n", "Streams-1: found this key, expected a name of small letters"),
    ("streams:\n", "empty:\nstreams:\n", f"empty: found nothing, {FIELDS}"),
    ("alert: Documents\n", "alert: Streams\n", "documents.alert: found Streams, which streams has; expected a name"),
    ("alert: Streams\n", "alert: 7\n", "streams.alert: found 7, expected a name like FirstSound"),
    ("title: documents fail\n", "title: it's late\n", "documents.title: found the text \"it's late\", expected words"),
    ("streams:\n", "streams: [\n", "not YAML"),
    (None, "", "found nothing, expected objectives by their names"),
    (None, "- a\n", "found a list, expected objectives by their names"),
]  # fmt: skip


@pytest.mark.parametrize(("old", "new", "said"), REFUSED)
def test_a_table_that_cannot_be_used_is_one_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], old: str | None, new: str, said: str
) -> None:
    table, rules = tmp_path / "objectives.yaml", tmp_path / "rules.yaml"
    good = objectives.TABLE.read_text(encoding="utf-8")
    assert old is None or good.count(old) == 1
    table.write_text(new if old is None else good.replace(old, new))
    assert objectives.main([], table=table, rules=rules) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert re.match(rf"{re.escape(str(table))}:\d+: {re.escape(said)}", line), line
    assert not rules.exists()


def test_a_table_that_is_not_there_is_one_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert objectives.main([], table=tmp_path / "objectives.yaml", rules=tmp_path / "rules.yaml") == 2
    assert capsys.readouterr().err == f"{tmp_path / 'objectives.yaml'}: no such file\n"
