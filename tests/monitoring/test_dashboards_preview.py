"""Dashboard preview: draws the data of a Prometheus with gaps; annotations mark the start and end of runs."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Iterator
from dataclasses import replace
from html import unescape
from pathlib import Path

import pytest
from free_ports import free_port
from series import WrittenSeries, serving, write

import preview
from boards import layout
from boards.document import PLAIN_VALUES, Document, documents
from boards.page import View, page
from boards.pictures import NAMED, Curve, Window, lines, states
from boards.prometheus import Prometheus, PrometheusError
from boards.units import format_value

BOARDS = documents(Path(__file__).parents[2] / "grafana/dashboards")
STEP = 15
END = int(time.time()) // 3600 * 3600
START = END - 3600
GAP = range(START + 1200, START + 1800)
LONG = 300  # how long Prometheus takes the last value of a series that ends without a word for its value
RUN = range(START + 600, START + 2400)
GPU = {"job": "exporter", "instance": "gpu-01", "gpu": "0", "uuid": "GPU-0"}
TRAINER = {"job": "trainer", "instance": "gpu-01", "run": "night"}


def _held(value: float, during: range, *, gap: range = range(0)) -> list[tuple[int, float]]:
    return [(at, value) for at in range(during.start, during.stop, STEP) if at not in gap]


WITH_WORK = {"gpu-02": 0.6, "gpu-03": 0.2, "gpu-04": 0.9, "gpu-05": None}  # utilization; None: lost


def _with_work(host: str, hour: range) -> list[WrittenSeries]:
    """A GPU with a workload that expects a utilization of 0.8."""
    used, labels = WITH_WORK[host], {**GPU, "instance": host, "uuid": host}
    work = {**labels, "workload": "trainer", "role": "model"}
    lost = [] if used is None else [WrittenSeries("voxyard:gpu_utilization:ratio10m", labels, _held(used, hour))]
    return [
        WrittenSeries("voxyard_gpu_info", {**labels, "name": "H100"}, _held(1, hour)),
        WrittenSeries("voxyard:gpu_up:bool", labels, _held(float(used is not None), hour)),
        WrittenSeries("voxyard_workload_gpu_assigned", work, _held(1, hour)),
        WrittenSeries("voxyard:workload_gpu_target:ratio", work, _held(0.8, hour)),
        *lost,
    ]


def _held_down(hour: range) -> list[WrittenSeries]:
    """A GPU that is busy all the time, at half of its clock: its power limit was lowered, and it draws all of that."""
    labels = {**GPU, "instance": "gpu-06", "uuid": "gpu-06"}
    cause = {
        "instance": "gpu-06",
        "gpu": "0",
        "uuid": "gpu-06",
        "cause": "power_cap",
        "title": "its power limit is lowered",
    }
    values = {
        "voxyard:gpu_up:bool": 1, "voxyard:gpu_utilization:ratio": 1, "voxyard:gpu_utilization:ratio10m": 1,
        "voxyard:gpu_clock:ratio10m": 0.5, "voxyard:gpu_power:ratio": 1, "voxyard_gpu_power_limit_watts": 300,
        "voxyard_gpu_power_limit_default_watts": 600,
    }  # fmt: skip
    return [
        WrittenSeries("voxyard_gpu_info", {**labels, "name": "H100"}, _held(1, hour)),
        WrittenSeries(
            "voxyard:workload_gpu_target:ratio", {**labels, "workload": "trainer", "role": "model"}, _held(0.7, hour)
        ),
        WrittenSeries("voxyard:cause:rank", cause, _held(5, hour)),
        *(WrittenSeries(name, labels, _held(value, hour)) for name, value in values.items()),
    ]


def _pair(host: str, hour: range, *, busy: bool) -> list[WrittenSeries]:
    """A data GPU with little to do beside a model GPU that is busy, or waits and nothing says why."""
    series = []
    for index, (role, used, target) in enumerate((("data", 0.1, 0.4), ("model", 0.9 if busy else 0.6, 0.8))):
        labels = {**GPU, "instance": host, "gpu": str(index), "uuid": f"{host}-{role}"}
        work = {**labels, "workload": "trainer", "role": role}
        series += [
            WrittenSeries("voxyard_gpu_info", {**labels, "name": "H100"}, _held(1, hour)),
            WrittenSeries("voxyard:gpu_utilization:ratio10m", labels, _held(used, hour)),
            WrittenSeries("voxyard:workload_gpu_target:ratio", work, _held(target, hour)),
        ]
        if used < target:
            series += [WrittenSeries("voxyard:workload_gpu_under_target:ratio", work, _held(used, hour))]
    return series


@pytest.fixture(scope="module")
def view(prometheus_program: str, promtool: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[View]:
    """An hour of a host: a GPU with a gap of ten minutes, a run that begins, ends by itself, and stays for a while."""
    directory, hour = tmp_path_factory.mktemp("past"), range(START, END + STEP)
    series = [
        WrittenSeries("voxyard:gpu_temperature:celsius", GPU, _held(61, hour, gap=GAP)),
        WrittenSeries("voxyard:gpu_up:bool", GPU, _held(1, hour)),
        WrittenSeries("voxyard:gpu_utilization:ratio", GPU, _held(0.75, hour)),
        *(
            WrittenSeries(f"voxyard:gpu_{name}7d", {**GPU, "role": "model"}, _held(value, hour))
            for name, value in (("energy:kwh", 4), ("paid:hours", 168), ("idle:hours", 0))
        ),
        WrittenSeries("voxyard_gpu_info", {**GPU, "name": "H100 <80GB>"}, _held(1, hour)),
        WrittenSeries("voxyard_train_active", TRAINER, _held(1, RUN)),
        WrittenSeries("voxyard_train_active", TRAINER, _held(0, range(RUN.stop, END))),
        WrittenSeries("voxyard_train_loss", {**TRAINER, "component": "mel"}, _held(math.nan, RUN)),
        WrittenSeries("ALERTS", {"alertname": "Watchdog", "alertstate": "firing", "severity": "none"}, _held(1, hour)),
        WrittenSeries("ALERTS", {"alertname": "GpuLost", "alertstate": "firing", "severity": "critical",
                        "instance": "gpu-01", "gpu": "0"}, _held(1, range(START + 3000, END + STEP))),
        *(WrittenSeries("ALERTS", {"alertname": name, "alertstate": "firing", "severity": severity},
                        _held(1, range(START + 3000, END + STEP)))
          for name, severity in (("Bothersome", "info"), ("ClockSkew", "warning"))),
        WrittenSeries("ALERTS", {"alertname": "TrainingInputBound", "alertstate": "firing", "severity": "warning",
                        "instance": "gpu-03", "run": "night", "title": "the storage is slow"},
                      _held(1, range(START + 3000, END + STEP))),
        *(each for host in WITH_WORK for each in _with_work(host, hour)),
        *_held_down(hour), *_pair("gpu-07", hour, busy=True), *_pair("gpu-08", hour, busy=False),
    ]  # fmt: skip
    write(promtool, directory, series)
    with serving(prometheus_program, directory) as address:
        yield View(Prometheus(address), Window(START, END, STEP), PLAIN_VALUES)


@pytest.fixture(scope="module")
def drawn(view: View) -> str:
    """The page."""
    return page(BOARDS, view)


def _figure(drawn: str, board: str, title: str) -> str:
    section = drawn.partition(f'<section id="{board}">')[2].partition("</section>")[0]
    (found,) = (each for each in section.split("<figure") if f"<b>{title}</b>" in each)
    return found


def test_every_panel_is_on_the_page_with_its_description(drawn: str) -> None:
    text = unescape(drawn)

    for board in BOARDS:
        for panel in board.panels:
            assert f"<b>{panel.title}</b>" in text
            assert panel.body["description"] in text


def test_the_page_needs_nothing_from_elsewhere(drawn: str) -> None:
    assert not re.search(r"<script|<link|<img|https?://|url\(", drawn)


def test_what_was_not_measured_is_a_gap(drawn: str) -> None:
    runs = re.findall(r'<polyline points="([^"]+)"', _figure(drawn, "voxyard-gpu", "Temperature"))

    assert len(runs) == 2
    ends, begins = (float(run.split()[at].split(",")[0]) for run, at in zip(runs, (-1, 0), strict=True))
    width = (GAP.stop - GAP.start - LONG) / (END - START)
    assert (begins - ends) / 600 == pytest.approx(width, abs=0.03)


def test_a_panel_without_data_says_so(drawn: str) -> None:
    assert "No data" in _figure(drawn, "voxyard-bark", "Batch size")
    assert "No data" not in _figure(drawn, "voxyard-gpu", "Temperature")


def test_a_number_is_the_latest_value(drawn: str) -> None:
    assert re.search(r'class="number"[^>]*>4<', _figure(drawn, "voxyard-fleet", "Alerts that fire"))
    assert re.search(r'class="number"[^>]*>5<', _figure(drawn, "voxyard-fleet", "GPUs up"))
    assert re.search(r'class="number"[^>]*>1<', _figure(drawn, "voxyard-fleet", "GPUs lost"))


@pytest.mark.parametrize(
    ("title", "without", "at_price"),
    [
        ("Cost of energy", "type in: Price of a kWh", "1"),
        ("Cost of GPUs", "type in: Price of a GPU hour", "336"),
        ("Cost of idle GPUs", "type in: Price of a GPU hour", "0"),
    ],
)
def test_a_cost_without_a_price_says_which_one_to_type_in(view: View, title: str, without: str, at_price: str) -> None:
    prices = {"price_kwh": "0.25", "price_gpu_hour": "2"}
    for values, shown in (({}, without), (prices, at_price)):
        drawn = page(BOARDS, replace(view, values={**PLAIN_VALUES, **values}))
        (number,) = re.findall(r'class="number"[^>]*>([^<]*)<', _figure(drawn, "voxyard-fleet", title))
        assert number.removesuffix(".00") == shown


def test_a_table_merges_what_belongs_to_one_gpu(drawn: str) -> None:
    rows = re.findall(r"<tr>(<td.*?)</tr>", _figure(drawn, "voxyard-fleet", "GPUs now"))
    (row,) = (each for each in rows if "gpu-01" in each)
    cells = [unescape(re.sub("<[^>]+>", "", cell)) for cell in row.split("</td>")]

    assert cells[:4] == ["gpu-01", "0", "H100 <80GB>", "up"]
    assert "75 %" in cells
    assert "61 °C" in cells


def _at(view: View, board: Document, annotation: str) -> list[float]:
    (expr,) = (each["expr"] for each in board.annotations if each["name"] == annotation)
    return [at for series in view.between(expr) for at, _ in series.points]


@pytest.mark.parametrize("board", BOARDS, ids=lambda board: str(board.title))
def test_a_run_is_annotated_once_where_it_begins_and_once_where_it_ends(board: Document, view: View) -> None:
    assert _at(view, board, "Runs started") == [RUN.start]
    assert _at(view, board, "Runs ended") == [RUN.stop]


def test_annotations_keep_to_the_step_of_a_long_time(view: View) -> None:
    coarse = View(view.prometheus, Window(START, END, 300), {**PLAIN_VALUES, "__interval": "300s"})

    assert _at(coarse, BOARDS[0], "Runs started") == [RUN.start]
    assert _at(coarse, BOARDS[0], "Runs ended") == [RUN.stop]


def test_alerts_are_annotated_without_the_watchdog(view: View) -> None:
    found = _at(view, BOARDS[0], "Alerts")

    assert found[0] == START + 3000
    assert len(found) == 4 * (600 // STEP + 1)  # four alerts


def test_a_host_that_is_not_chosen_is_not_shown(view: View) -> None:
    other = View(view.prometheus, view.window, {**PLAIN_VALUES, "instance": "gpu-02"})

    assert "gpu-01" not in page(BOARDS, other)


def test_the_command_writes_the_page(view: View, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "made/preview.html"

    assert preview.main(["--prometheus", view.prometheus.address, "--until", str(END), "--out", str(out)]) == 0

    assert "H100 &lt;80GB&gt;" in out.read_text()
    assert str(out) in capsys.readouterr().out


def test_the_command_says_that_there_is_no_prometheus(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    address = f"http://127.0.0.1:{free_port()}"

    assert preview.main(["--prometheus", address, "--out", str(tmp_path / "out.html")]) == 1

    assert f"{address} does not answer" in capsys.readouterr().err
    assert not (tmp_path / "out.html").exists()


def test_a_query_that_is_refused_is_named(view: View) -> None:
    with pytest.raises(PrometheusError, match=r"sum by \(: .*parse error"):
        view.between("sum by (")


def test_a_value_that_is_not_finite_breaks_the_line() -> None:
    points = tuple((float(at), value) for at, value in enumerate((1.0, 2.0, math.nan, 3.0, 4.0, math.inf, 5.0)))

    drawn = lines([Curve("loss", points)], [], Window(0, 6, 1), "none")

    assert (drawn.count("<polyline"), drawn.count("<circle")) == (2, 1)
    assert "nan" not in drawn.partition("legend")[0].lower()


def test_a_state_that_was_not_measured_has_no_bar() -> None:
    curve = Curve("GPU 0", ((0, 1), (1, 1), (2, 0), (6, 1)))

    drawn = states([curve], [], Window(0, 8, 1), {"0": ("down", "red"), "1": ("up", "green")})

    bars = [float(width) for width in re.findall(r'<rect [^>]*width="([\d.]+)"', drawn)]
    assert bars == pytest.approx([2 * bars[1], bars[1], bars[1]], abs=0.2)


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (0.4251, "percentunit", "42.5 %"), (0, "percentunit", "0 %"), (80 * 2**30, "bytes", "80 GiB"),
        (512, "bytes", "512 B"), (3e9, "Bps", "3 GB/s"), (0.012, "s", "12 ms"), (90, "s", "1.5 min"),
        (0.00025, "s", "250 µs"), (1755e6, "hertz", "1.75 GHz"), (412, "watt", "412 W"), (69.25, "celsius", "69.2 °C"),
        (7.9, "ops", "7.9 /s"), (1500, "ops", "1.5 k/s"), (0.0005, "sci", "0.0005"), (3, "none", "3"),
        (0.00012, "none", "0.00012"), (math.nan, "none", "nan"), (-2000, "watt", "-2 kW"),
    ],
)  # fmt: skip
def test_a_value_is_shown_in_its_unit(value: float, unit: str, text: str) -> None:
    assert format_value(value, unit) == text


def _rows(figure: str) -> list[list[str]]:
    return [
        re.findall(r"<td[^>]*>(.*?)</td>", row) for row in re.findall(r"<tr>(.*?)</tr>", figure.partition("<tbody>")[2])
    ]


def _column(drawn: str, title: str, name: str) -> dict[tuple[str, str], str]:
    """A column of a table of the Fleet dashboard, by host and GPU, in the order of its rows."""
    figure = _figure(drawn, layout.FLEET, title)
    names = [unescape(each) for each in re.findall(r"<th(?: [^>]*)?>(.*?)</th>", figure)]
    return {
        (row[names.index("Host")], row[names.index("GPU")]): re.sub("<[^>]+>", "", row[names.index(name)])
        for row in _rows(figure)
    }


def test_the_gpu_that_lacks_most_of_its_target_is_first(drawn: str) -> None:
    assert list(_column(drawn, "GPUs now", "Lacks").items()) == [
        (("gpu-05", "0"), "100 %"), (("gpu-03", "0"), "75 %"), (("gpu-08", "0"), "75 %"), (("gpu-06", "0"), "50 %"),
        (("gpu-02", "0"), "25 %"), (("gpu-08", "1"), "25 %"), (("gpu-04", "0"), "0 %"), (("gpu-07", "1"), "0 %"),
        (("gpu-01", "0"), ""), (("gpu-07", "0"), ""),
    ]  # fmt: skip


def test_a_gpu_that_a_lowered_power_limit_holds_down_is_not_shown_as_well(drawn: str) -> None:
    """It is busy all the time and draws all the power that it may."""
    shown = {name: _column(drawn, "GPUs now", name)["gpu-06", "0"] for name in ("Utilization", "Lacks", "Why")}

    assert shown == {"Utilization": "100 %", "Lacks": "50 %", "Why": "its power limit is lowered"}
    assert _column(drawn, "GPUs now", "Limit ÷ default")["gpu-06", "0"] == "50 %"


def test_what_nothing_explains_says_what_to_run(drawn: str) -> None:
    why = _column(drawn, "GPUs now", "Why")

    assert {gpu: text for gpu, text in why.items() if gpu[0] in ("gpu-07", "gpu-08")} == {
        ("gpu-07", "0"): "", ("gpu-07", "1"): "", ("gpu-08", "0"): "",
        ("gpu-08", "1"): "not known: run voxyard profile",
    }  # fmt: skip


def test_an_alert_says_why_beside_its_name(drawn: str) -> None:
    assert _column(drawn, "Firing alerts", "Why")["gpu-03", ""] == "the storage is slow"


def test_every_color_of_the_dashboards_is_drawn_as_itself() -> None:
    used = {each for board in BOARDS for each in re.findall(r"'color': '([^']+)'", str(board.body))}

    assert used <= set(NAMED)
    assert len(set(NAMED.values())) == len(NAMED)


def test_critical_alerts_are_first(drawn: str) -> None:
    rows = _rows(_figure(drawn, layout.FLEET, "Firing alerts"))

    assert [row[0] for row in rows] == ["critical", "warning", "warning", "info"]
