"""What a report says of its reads: in text, page and JSON, cold or warm."""

from __future__ import annotations

import pytest
from profiles import COLD, made_up

from voxyard.diagnose.page import render
from voxyard.diagnose.profile import Profile
from voxyard.diagnose.reads import Reads
from voxyard.host.page_cache import Pages

WARM = Pages(400, 400, ("tmpfs keeps its files in memory",))
SLOW_LOAD = (0.4, 0.05, 0.001, 0.1)


def profile(load: Pages, overlapped: Pages) -> Profile:
    return made_up(
        *SLOW_LOAD, load={"probed": ((8, 0.08, COLD),)}, reads=Reads({"load alone": load, "overlapped": overlapped})
    )


def test_cold_reads_are_said_with_their_share_in_every_form() -> None:
    found = profile(COLD, COLD)
    assert "reads, load alone: cold (0% of 1000 pages were cached before)" in found.text()
    assert "reads, overlapped: cold" in found.text()
    assert "Reads, overlapped: cold (0% of 1000 pages were cached before)." in render(found)
    reads = found.document()["reads"]
    assert (reads["state"], reads["share_cached"], set(reads["looks"])) == ("cold", 0.0, {"load alone", "overlapped"})
    assert "not judged" not in found.text()


def test_warm_reads_are_said_with_their_reason_and_nothing_is_advised_from_them() -> None:
    found = profile(WARM, WARM)
    for form in (found.text(), render(found)):
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
