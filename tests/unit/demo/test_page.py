"""The demo's page: nothing is fetched, nothing slips in, what is missing is said, and what is not real is labelled."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
from demo_results import NOISE, whole

from demo.chart import Points, lines, ticks
from demo.monitoring import NO_PROMETHEUS, Seen
from demo.page import Results, page, write
from demo.training import Reading

EVIL = "<script>alert('&\"')</script>"


def section(text: str, name: str) -> str:
    """A section of the page."""
    found = re.search(rf'<section id="{name}">.*?</section>', text, re.DOTALL)
    assert found is not None
    return found[0]


def test_every_text_is_escaped() -> None:
    written = page(whole(EVIL))
    assert "<script" not in written
    assert "alert(" in written
    assert written.count("&lt;script&gt;alert(&#x27;&amp;&quot;&#x27;)") > 15


def test_the_page_asks_for_nothing_but_itself_and_files_beside_it() -> None:
    written = page(whole())
    assert set(re.findall(r'\bhref="([^"]*)"', written)) == {
        "profile.html", "dashboards.html", "logs/01-x.log", "logs/02-y.log",
    }  # fmt: skip
    assert {each.partition(",")[0] for each in re.findall(r'\bsrc="([^"]*)"', written)} == {
        "data:image/png;base64", "data:audio/wav;base64",
    }  # fmt: skip
    assert "default-src 'none'" in written
    assert "http:" not in written
    assert "url(" not in written


def test_what_is_not_real_is_labelled() -> None:
    written = page(whole())
    bark = next(part for part in written.split("<figure") if "Bark over HTTP" in part)
    assert "random weights" in bark
    assert "noise" in bark
    monitoring = section(written, "monitoring")
    assert re.search(r"Exporter <span[^>]*>scripted GPUs<", monitoring)
    assert re.search(r"Alerts <span[^>]*>scripted GPUs<", monitoring)
    assert re.search(r"Alerts <span[^>]*>real<", section(page(replace(whole(), scripted=False)), "monitoring"))


def test_a_recording_is_labelled_with_the_voice_that_made_it() -> None:
    def badge(written: str, title: str) -> str:
        found = re.search(rf"<h3>{title} <span[^>]*>([^<]*)<", written)
        assert found is not None
        return found[1]

    written = page(whole())
    assert badge(written, "A recording") == badge(written, "The same, by espeak-ng") == "synthetic voice (espeak-ng)"
    assert badge(written, "The trained model") == "real"
    assert badge(page(replace(whole(), own_corpus=True)), "A recording") == "real"


def test_the_page_says_what_voxyard_is_and_what_a_runbook_is() -> None:
    written = page(whole())
    assert "voxyard runs speech models on a company's own GPU hosts" in written
    assert "runbook is a file of the repository" in section(written, "monitoring")


def test_a_failure_is_shown_with_its_last_lines() -> None:
    written = page(replace(whole(), failures=["train ended with exit code 1; its last lines were:\n  <none>"]))
    assert "<pre>train ended with exit code 1; its last lines were:\n  &lt;none&gt;</pre>" in written
    assert "Failed;" not in page(whole())


def test_parts_that_were_left_out_are_named_and_have_no_place() -> None:
    written = page(Results(left_out=[NO_PROMETHEUS, "Bark was left out."]))
    assert "Prometheus was left out" in written
    assert "Bark was left out." in written
    assert re.findall(r'<section id="(\w+)"', written) == ["speech", "commands"]
    assert "<figure" not in written
    assert "Left out on this machine" not in page(replace(whole(), left_out=[]))


def test_without_prometheus_the_exporter_is_still_shown() -> None:
    monitoring = section(page(replace(whole(), monitored=False, dashboards=None)), "monitoring")
    assert "Exporter" in monitoring
    assert "Alerts" not in monitoring
    assert "dashboards.html" not in monitoring


def test_a_training_that_prometheus_never_saw_has_no_alert_state() -> None:
    monitoring = section(page(replace(whole(), seen=Seen())), "monitoring")
    assert "ended before Prometheus had scraped it" in monitoring


def test_a_gpu_has_its_figures_and_a_lost_one_has_none() -> None:
    alive, lost = re.findall(r"<tr><td>[01]</td>.*?</tr>", section(page(whole()), "monitoring"))
    assert "<td>50%</td><td>1 GiB</td><td>99 W</td><td>61 °C</td>" in alive
    assert not re.search(r"\d (GiB|W|°C)", lost)


def test_alerts_show_their_state_and_the_quiet_ones_are_named() -> None:
    monitoring = section(page(whole()), "monitoring")
    assert '<b class="firing">firing</b>' in monitoring
    assert '<b class="pending">pending</b>' in monitoring
    assert '<b class="firing">no: lost</b>' in monitoring
    assert "1 further alerts are defined and are quiet: QuietOne." in monitoring


@pytest.mark.parametrize(
    ("reading", "said"),
    [
        (
            Reading("a", True, NOISE, NOISE, 0.4, (1.2, 1.4), 0.1),
            "0.40 nepers; recordings of 2 other sentences are 1.30 away, "
            "two readings of one sentence by espeak-ng 0.10",
        ),
        (Reading("a", True, NOISE), "held out of the training: 0.33 nepers"),
    ],
)
def test_the_sentence_has_a_figure_of_its_quality(reading: Reading, said: str) -> None:
    assert said in section(page(replace(whole(), reading=reading)), "speech")


def test_a_sentence_of_the_corpus_is_not_called_held_out() -> None:
    held_out, learned = (
        section(page(replace(whole(), reading=Reading("a", held, NOISE))), "speech") for held in (True, False)
    )
    assert "the sentence is not among the training texts" in held_out
    assert "the sentence is one of the training texts" in learned


def test_every_command_has_its_time_and_its_output() -> None:
    commands = section(page(whole()), "commands")
    assert "<td>1.5 s</td>" in commands
    assert "<td>9.0 s, beside the others</td>" in commands
    assert "4 min 5 s on this machine" in page(whole())


def test_the_page_is_written_whole(tmp_path: Path) -> None:
    write(whole(), tmp_path / "index.html")
    assert [path.name for path in tmp_path.iterdir()] == ["index.html"]
    assert (tmp_path / "index.html").read_text(encoding="utf-8") == page(whole()).replace("\r", "")


def test_a_curve_is_as_high_as_its_value() -> None:
    drawn = lines("x", "Losses", [("loss", ((0, 10.0), (50, 5.0), (100, float("nan")), (100, 0.0)))], "steps")
    points = re.search(r'points="([^"]*)"', drawn)
    assert points is not None
    high, middle, low = (float(each.partition(",")[2]) for each in points[1].split())
    assert high < middle < low
    assert middle == pytest.approx((high + low) / 2, abs=0.1)
    assert "nan" not in drawn


def test_a_chart_draws_nothing_outside_its_picture() -> None:
    drawn = lines("x", "Losses", [("loss", ((0, 9.2), (50, 5.0), (100, 0.0)))], "steps")
    box = re.search(r'viewBox="0 0 (\d+) (\d+)"', drawn)
    points = re.search(r'points="([^"]*)"', drawn)
    assert box is not None
    assert points is not None
    places = [tuple(map(float, each.split(","))) for each in points[1].split()]
    places += [tuple(map(float, each)) for each in re.findall(r'c?x="([\d.-]+)" c?y="([\d.-]+)"', drawn)]
    assert all(0 < x <= float(box[1]) and 0 < y <= float(box[2]) for x, y in places)


def test_a_curve_without_points_is_said() -> None:
    assert "too short" in lines("x", "Losses", [("loss", ())], "steps")


def test_a_curve_of_one_point_is_a_sentence_and_no_dot() -> None:
    one, two = ("mel <error>", ((20.0, 0.5),)), ("loss", ((1.0, 9.0), (20.0, 4.0)))
    alone = lines("x", "Errors", [one], "steps")
    assert "One value, too few for a curve: mel &lt;error&gt;: 0.5 at step 20." in alone
    assert "<svg" not in alone
    beside = lines("x", "Errors", [two, one], "steps")
    assert "mel &lt;error&gt;: one value, 0.5 at step 20, too few for a curve" in beside
    assert beside.count("<circle") == 2
    assert beside.count("<polyline") == 1


@pytest.mark.parametrize("points", [(), ((20.0, 0.5),), ((1.0, 9.0), (20.0, 4.0))])
def test_a_chart_has_its_title_above_it(points: Points) -> None:
    assert ">Errors &amp; losses</h3>" in lines("x", "Errors & losses", [("loss", points)], "steps")


@pytest.mark.parametrize(
    ("top", "marks"),
    [(0, [0, 1]), (9.2, [0, 2.5, 5, 7.5, 10]), (0.64, [0, 0.2, 0.4, 0.6, 0.8]), (400, [0, 100, 200, 300, 400])],
)
def test_ticks_are_round(top: float, marks: list[float]) -> None:
    assert ticks(top) == pytest.approx(marks)
