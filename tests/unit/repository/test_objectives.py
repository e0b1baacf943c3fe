"""Objectives: the rules are those of the table, and a target that no alert could tell is refused."""

from __future__ import annotations

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


@pytest.mark.parametrize("target", ["0.9", "1"])
def test_a_target_at_which_nothing_could_fire_is_refused(tmp_path: Path, target: str) -> None:
    table = tmp_path / "objectives.yaml"
    table.write_text(objectives.TABLE.read_text(encoding="utf-8").replace("target: 0.995", f"target: {target}"))
    with pytest.raises(ValueError, match=rf"documents: target: found {target}.*expected above 0\.931 and below 1"):
        objectives.main([], table=table, rules=tmp_path / "rules.yaml")
