"""Reads in a report: in text, page and JSON, cold or warm."""

from __future__ import annotations

from typing import Any

import pytest
from profiles import COLD, made_up

from voxyard.diagnose.profile import html_report, text_report
from voxyard.diagnose.profile.cost_model import Costs
from voxyard.diagnose.profile.facts import Probed
from voxyard.diagnose.profile.measure import LoadTiming, Read
from voxyard.diagnose.profile.result import Profile, Reads
from voxyard.diagnose.profile.run import _probe
from voxyard.host.page_cache import Pages

WARM = Pages(400, 400, ("tmpfs keeps its files in memory",))
SLOW_LOAD = (0.4, 0.05, 0.001, 0.1)


def profile(load: Pages, overlapped: Pages) -> Profile:
    return made_up(
        *SLOW_LOAD, load={"probed": Probed(8, 0.08, COLD)}, reads=Reads({"load alone": load, "overlapped": overlapped})
    )


def test_cold_reads_are_reported_with_their_share_in_every_form() -> None:
    found = profile(COLD, COLD)
    assert "reads, load alone: cold (0% of 1000 pages were cached before)" in text_report.render(found)
    assert "reads, overlapped: cold" in text_report.render(found)
    assert "Reads, overlapped: cold (0% of 1000 pages were cached before)." in html_report.render(found)
    reads = found.document()["reads"]
    assert (reads["state"], reads["share_cached"], set(reads["looks"])) == ("cold", 0.0, {"load alone", "overlapped"})
    assert "not judged" not in text_report.render(found)


def test_warm_reads_are_reported_with_their_reason_and_nothing_is_advised_from_them() -> None:
    found = profile(WARM, WARM)
    for form in (text_report.render(found), html_report.render(found)):
        assert "warm (100% of 400 pages were cached before: tmpfs keeps its files in memory)" in form
        assert "hreads, shards and caches are not judged" in form
        assert "--num-workers" not in form
        assert "corpus prepare" not in form
        assert "--cache" not in form
    assert found.document()["reads"]["looks"]["load alone"]["why"] == ["tmpfs keeps its files in memory"]


def test_the_verdict_marks_that_a_disk_may_be_slower_than_memory() -> None:
    marks = {each.rule: each for each in profile(WARM, COLD).verdict.annotations}
    assert marks["reads"].value == pytest.approx(400 / 1400)
    assert marks["reads"].sentence.startswith("reads are partly: ")
    assert "reads" not in {each.rule for each in profile(COLD, COLD).verdict.annotations}


class Reader:
    """A benchmark on a disk at its limit: whoever reads more batches at once finds more of them read ahead."""

    def __init__(self, wanted: int) -> None:
        self.wanted = wanted
        self.looks: list[tuple[int | None, int, int]] = []

    def threads_that_could_help(self, loading: LoadTiming, *, goal: float) -> int:
        return self.wanted

    def load(self, workers: int | None = None, *, batches: int, first: int) -> LoadTiming:
        self.looks.append((workers, batches, first))
        return loading(batches, COLD, workers or 2)


def loading(batches: int, pages: Pages, workers: int = 2) -> LoadTiming:
    return LoadTiming(workers, (Read(0.0, 0.4, 0.0),) * batches, batches * (0.4 if batches <= 8 else 0.1), pages)


@pytest.mark.parametrize(("wanted", "looks"), [(5, [(5, 8, 0)]), (32, [(None, 32, 0), (32, 32, 0)])])
def test_more_threads_are_tried_on_the_batches_that_they_are_compared_on(wanted: int, looks: list[Any]) -> None:
    benchmark: Any = Reader(wanted)
    found = _probe(benchmark, loading(8, COLD), Costs(0.4, 0.01, 0.0, 0.1), lambda _: None)
    assert benchmark.looks == looks
    assert found is not None
    assert found.workers == wanted
    assert found.seconds == pytest.approx(0.4)


def test_after_reads_from_memory_no_threads_are_tried() -> None:
    benchmark: Any = Reader(8)
    assert _probe(benchmark, loading(8, WARM), Costs(0.4, 0.01, 0.0, 0.1), lambda _: None) is None
    assert benchmark.looks == []
