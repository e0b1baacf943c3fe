"""The guides: links lead somewhere, tasks are taken as they are written, README.md stays a front page."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import fabfile
import pytest
from invoke import Collection, Exit, ParseError
from invoke.parser import Parser
from tracked_files import ROOT, tracked

MAP = "runtime/README.md"
PACKAGES = sorted(path.parent.name for path in (ROOT / "runtime/voxyard").glob("*/__init__.py"))
QUESTIONS = {  # what a newcomer looks for, as its row of the map says it → the file that has it
    "rate limit": "voxyard/service/http/rate_limit.py",
    "retry": "voxyard/speech/pool/scheduler.py",
    "dispatch": "voxyard/service/dispatch/dispatcher.py",
    "CUDA graph": "voxyard/bark/model/cuda_graph.py",
    "memory limit": "voxyard/host/limits.py",
    "alert for idle GPUs": "../deploy/prometheus/rules/gpu_alerts.yaml",
}

_CODE = re.compile(r"^ *(```|~~~).*?^ *\1[^\n]*$|`[^`\n]+`", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\[[^\]\n]*\]\(([^)\s]+)\)")
_SOURCE = re.compile(r"(?<![\w.~$<>{}*-])/?(?:[\w.-]+/)+[\w-]+\.(?:py|sh|md)\b")
_HEADING = re.compile(r"^#{1,6} +(.+?)(?: +#+)?$", re.MULTILINE)
_FENCES = re.compile(r"^ *(```|~~~).*?^ *\1[^\n]*$", re.MULTILINE | re.DOTALL)
ELSEWHERE = ("bark/api.py", "bark/generation.py", "bark/model.py", "bark/model_fine.py")  # of Bark's own package


def links(text: str) -> Iterator[str]:
    """The targets of all links of a Markdown text; what stands in code is none."""
    yield from _LINK.findall(_CODE.sub(lambda code: "" if code[1] else "code", text))


def anchors(text: str) -> set[str]:
    """The anchors that GitHub gives to the headings of a Markdown text."""
    found: dict[str, int] = {}
    names = set()
    for heading in _HEADING.findall(_FENCES.sub("", text)):
        plain = _LINK.sub(lambda link: link[0].partition("]")[0].lstrip("["), heading)
        slug = re.sub(r"[^\w\- ]", "", plain.strip().lower()).replace(" ", "-")
        names.add(f"{slug}-{found[slug]}" if slug in found else slug)
        found[slug] = found.get(slug, 0) + 1
    return names


def broken_links(page: Path, root: Path, files: set[Path]) -> list[str]:
    """The links of `page` that lead nowhere: to no one of `files` nor a folder of them, or to no heading there."""
    found = []
    for target in links(page.read_text(encoding="utf-8")):
        if target.startswith("https://"):
            continue
        name, _, anchor = target.partition("#")
        aim = (page.parent / name).resolve() if name else page
        if aim not in files and not (aim.is_relative_to(root) and any(aim in file.parents for file in files)):
            found.append(f"{page.relative_to(root)}: {target}: no such file in the repository")
        elif anchor and (aim.suffix != ".md" or anchor not in anchors(aim.read_text(encoding="utf-8"))):
            found.append(f"{page.relative_to(root)}: {target}: no such heading")
    return found


def missing_sources(page: Path, root: Path, files: set[Path]) -> list[str]:
    """The code, scripts and guides that `page` names by a path, in prose or code, and no one of `files` ends in.

    What a link leads to is left to broken_links; a path from the root `/` is one of another machine.
    """
    prose = _LINK.sub(lambda link: link[0].partition("](")[0], page.read_text(encoding="utf-8"))
    named = sorted({path for path in _SOURCE.findall(prose) if not path.startswith("/") and path not in ELSEWHERE})
    known = ["/" + file.relative_to(root).as_posix() for file in files]
    return [
        f"{page.relative_to(root)}: {path}: no such file in the repository"
        for path in named
        if not any(name.endswith("/" + path.removeprefix("./").replace("../", "")) for name in known)
    ]


def test_every_source_that_a_guide_names_is_there() -> None:
    files = set(tracked())
    pages = sorted(path for path in files if path.suffix == ".md")
    assert [fault for page in pages for fault in missing_sources(page, ROOT, files)] == []


@pytest.mark.parametrize(
    ("text", "missing"),
    [
        ("one is `tests/support/toy.py`", []),
        ("one is support/toy.py, in short", []),
        ("one is `tests/integration/toy.py`", ["tests/integration/toy.py"]),
        ("```\npython tests/integration/toy.py\n```", ["tests/integration/toy.py"]),
        ("[`tests/integration/toy.py`](tests/support/toy.py)", ["tests/integration/toy.py"]),
        ("[toy](tests/integration/toy.py)", []),  # a broken link
        ("`bark/generation.py` of Suno", []),
        ("`/usr/lib/none.py`, `$HOME/none.py`", []),
    ],
)
def test_a_planted_source_is_judged_rightly(tmp_path: Path, text: str, missing: list[str]) -> None:
    page = tmp_path / "a.md"
    page.write_text(text + "\n")
    said = missing_sources(page, tmp_path, {page, tmp_path / "tests/support/toy.py"})
    assert [each.split(": ")[1] for each in said] == missing


def test_every_link_of_every_guide_leads_somewhere() -> None:
    files = set(tracked())
    pages = [path for path in files if path.suffix == ".md"]
    assert ROOT / "README.md" in pages
    assert [fault for page in sorted(pages) for fault in broken_links(page, ROOT, files)] == []


@pytest.mark.parametrize(
    ("link", "fault"),
    [
        ("[a](b.md)", None),
        ("[a](folder)", None),
        ("[a](b.md#the-two--a-pair)", None),
        ("[a](b.md#twice-1)", None),
        ("[a](#home)", None),
        ("[a](https://example.com/none)", None),
        ("`[a](none.md)`", None),
        ("```\n[a](none.md)\n```", None),
        ("[a](none.md)", "no such file in the repository"),
        ("[`code`](none.md)", "no such file in the repository"),
        ("[a](../outside.md)", "no such file in the repository"),
        ("[a](b.md#code)", "no such heading"),
        ("[a](#away)", "no such heading"),
        ("[a](folder/c.py#home)", "no such heading"),
        ("[a](http://example.com/none)", "no such file in the repository"),
    ],
)
def test_a_planted_link_is_judged_rightly(tmp_path: Path, link: str, fault: str | None) -> None:
    page, other, code = tmp_path / "a.md", tmp_path / "b.md", tmp_path / "folder/c.py"
    page.write_text(f"# Home\n\n{link}\n")
    other.write_text("## The two: *a* pair\n\n## Twice\n\n## Twice\n\n```\n# code\n```\n".replace("*a*", "+ a"))
    code.parent.mkdir()
    code.touch()
    said = broken_links(page, tmp_path, {page, other, code})
    assert [each.rpartition(": ")[2] for each in said] == ([fault] if fault else [])


def test_the_front_page_is_short_and_its_status_is_on_the_first_screen() -> None:
    lines = (ROOT / "README.md").read_text(encoding="utf-8").splitlines()
    assert len(lines) <= 150
    screen = " ".join(lines[:25])
    assert "voxyard ran on 1 × NVIDIA H100" in screen
    assert "not run: tests-trainer" in screen
    assert "no published Bark weights" in screen
    assert "make demo" in screen
    assert "make test" in screen


def test_every_guide_can_be_reached_from_the_front_page() -> None:
    reached: set[Path] = set()
    ahead = [ROOT / "README.md"]
    while ahead:
        page = ahead.pop()
        reached.add(page)
        names = (target.partition("#")[0] for target in links(page.read_text(encoding="utf-8")))
        aims = {(page.parent / name).resolve() for name in names if name.endswith(".md") and ":" not in name}
        ahead += aims - reached
    assert set(tracked("*.md")) - reached == set()


def refused_tasks(text: str) -> list[str]:
    """The lines `fab TASK …` of a Markdown text that the tasks do not take, each with what they say."""
    found = []
    for line in re.findall(r"^ *(fab .+)$", text, re.MULTILINE):
        try:
            tasks = Parser(contexts=Collection.from_module(fabfile).to_contexts()).parse_argv(
                shlex.split(line, comments=True)[1:]
            )
        except (Exit, ParseError) as error:
            found.append(f"{line}: {error}")
            continue
        for each in tasks:
            given = {name for name, argument in each.args.items() if argument.value}
            if each.name == "train" and not (len(given & {"host", "hosts"}) == len(given & {"config", "resume"}) == 1):
                found.append(f"{line}: expected --host or --hosts, and --config or --resume")
            if {"run", "resume"} <= given or (each.name == "logs" and len(given & {"run", "service"}) != 1):
                found.append(f"{line}: expected one way to name a run")
    return found


@pytest.mark.parametrize("page", tracked("*.md"), ids=lambda page: str(page.relative_to(ROOT)))
def test_every_task_of_a_guide_is_taken_as_it_is_written(page: Path) -> None:
    assert refused_tasks(page.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize(
    ("line", "good"),
    [
        ("fab train --host HOST --resume RUN  # goes on", True),
        ("fab train --resume --run RUN", False),
        ("fab train --resume RUN", False),
        ("fab train --host HOST --resume RUN --run RUN", False),
        ("fab stop --run RUN", False),
        ("fab logs --host HOST", False),
        ("fab gpus --give UUID", False),
    ],
)
def test_a_planted_task_is_judged_rightly(line: str, good: bool) -> None:
    assert (refused_tasks(f"    {line}\n") == []) is good


@pytest.mark.parametrize("package", PACKAGES)
def test_the_map_has_every_package(package: str) -> None:
    assert f"voxyard/{package}" in set(links((ROOT / MAP).read_text(encoding="utf-8")))


@pytest.mark.parametrize(("question", "file"), QUESTIONS.items())
def test_the_map_answers_where_things_are(question: str, file: str) -> None:
    rows = [line for line in (ROOT / MAP).read_text(encoding="utf-8").splitlines() if line.startswith("|")]
    assert any(question.lower() in row.partition(" | ")[0].lower() and f"({file})" in row for row in rows)


def test_the_proofs_that_the_service_guide_names_are_there() -> None:
    guide = ROOT / "runtime/voxyard/service/README.md"
    named = re.findall(r"`(test_\w+)` in \[\w+\]\((\S+)\)", guide.read_text(encoding="utf-8"))
    assert len(named) > 15
    for name, path in named:
        assert f"def {name}(" in (guide.parent / path).read_text(encoding="utf-8"), f"{path} has no {name}"
