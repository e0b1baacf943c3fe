"""`voxyard train` as a user types it: messages, metrics, report, refusals."""

from __future__ import annotations

import json
import re
import socket
import ssl
import subprocess
import time
import urllib.request

import pytest
import trustme
from free_ports import free_port
from prometheus_client import Metric
from prometheus_client.parser import text_string_to_metric_families
from runs import command, environment, write_tones


def test_a_split_run_logs_the_lines_of_its_guide(toy, voxyard):
    """The messages, without the word GPU where there is none; which it was that ended the waiting."""
    done = voxyard(*toy, "--max-steps", 6, "--prefetch-buffer-size", 2, "--buffer-size", 5, "--num-workers", 8)
    assert done.returncode == 0, done.stderr
    assert_in_order(
        done.stderr,
        "Devices: no GPU, 2 logical CPU devices (strategy split)",
        "Data device: logical CPU device 0, /device:CPU:0",
        "Model device: logical CPU device 1, /device:CPU:1",
        "Creating model on device: /device:CPU:1",
        "Starting training...",
        "Buffer Size: 5",
        "Reading Threads: 5 (--num-workers 8, at most one for each batch of the buffer of 5)",
        "Adapting the input to its waits, up to 10 reading threads, buffer of 10 (--no-adapt keeps both)",
        "Smart Prefetching: Enabled",
        "Prefetching to /CPU:0 with buffer_size=5; 2 ring slots on /CPU:1",
        "Waiting 0.5s for data pipeline to warm up...",
        "Model training starting now",
    )
    assert not re.search("GPU (Pipeline|Mode|configuration)|Processing GPU|Training GPU", done.stderr)
    assert done.stdout.startswith("run ")


def test_a_single_run_reports_it(toy, voxyard):
    """Buffered mode is the default without ids."""
    single = [argument for argument in toy if argument not in ("--data-gpu", "--model-gpu", 0, 1)]
    done = voxyard(*single, "--max-steps", 3, "--no-adapt")
    assert done.returncode == 0, done.stderr
    assert re.search(r"^rate +too few steps to measure \(\d of 10\)$", done.stdout, re.MULTILINE)
    assert_in_order(
        done.stderr,
        "Devices: no GPU, 1 logical CPU device (strategy single)",
        "Creating model on device: /device:CPU:0",
        "Starting training...",
        "Buffer Size: 50",
        "Reading Threads: ",
        "Smart Prefetching: Enabled",
        "Prefetching to /CPU:0 with buffer_size=50; 3 ring slots on /CPU:0",
        "Waiting 0.5s for data pipeline to warm up...",
        "Model training starting now",
    )
    assert "Adapting" not in done.stderr


def assert_in_order(log: str, *messages: str) -> None:
    """Every message is in a line of the log, each after the one before."""
    lines = iter(log.splitlines())
    for message in messages:
        assert any(message in line for line in lines), message


def test_a_run_ends_when_its_time_is_up(toy, voxyard, tmp_path):
    """--max-minutes: saves and stops, with exit code 0."""
    done = voxyard(*toy, "--max-steps", 10_000_000, "--max-minutes", 0.1, "--json")
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert "the time is up" in report["ended"]
    assert report["checkpoint"].endswith(f"step-{report['last_step']:08d}")


@pytest.mark.parametrize("strategy", ["single", "mirrored"])
def test_every_strategy_trains_on_cpu_devices(toy, voxyard, strategy):
    plain = [argument for argument in toy if argument not in ("--data-gpu", "--model-gpu", 0, 1)]
    done = voxyard(*plain, "--strategy", strategy, "--max-steps", 4, "--grad-accum", 2, "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["strategy"] == strategy


def test_the_report_counts_traces_and_buckets(toy, voxyard):
    done = voxyard(*toy, "--max-steps", 40, "--buckets", 3, "--json")
    report = json.loads(done.stdout)
    assert report["buckets"] == 3
    assert report["traces"]["features"] == 3
    assert 1 <= report["traces"]["update"] <= 3


def test_without_static_shapes_every_shape_is_traced(toy, voxyard):
    """The switch has an effect."""
    done = voxyard(*toy, "--max-steps", 20, "--no-enable-static-shapes", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["traces"]["features"] > 5


def test_the_start_delay_bounds_the_waiting_for_a_slow_disk(toy, voxyard, tmp_path):
    """A buffer that cannot fill in time does not hold the training for longer than the delay."""
    big = write_tones(tmp_path / "big", 400)
    slow = [big if argument == toy[toy.index("--train-data") + 1] else argument for argument in toy]
    done = voxyard(*slow, "--max-steps", 300, "--buffer-size", 290, "--model-start-delay", 0, "--max-steps", 3)
    assert done.returncode == 0, done.stderr
    assert re.search(r"Model training starting now: the (first batch was ready|delay of 0 s was over)", done.stderr)


@pytest.mark.parametrize("scheme", [pytest.param("http", marks=pytest.mark.long), "https"])
def test_metrics_of_a_run_are_served_while_it_goes(toy, tmp_path, scheme):
    """Names as users know them, on --metrics-port; 0 is off. With TLS by --metrics-web-config."""
    authority = trustme.CA()
    authority.issue_cert("127.0.0.1").private_key_and_cert_chain_pem.write_to_path(tmp_path / "pair.pem")
    web = tmp_path / "web.yaml"
    web.write_text(f"tls_server_config: {{cert_file: {tmp_path}/pair.pem, key_file: {tmp_path}/pair.pem}}\n")
    context = ssl.create_default_context()
    authority.configure_trust(context)
    port = free_port()
    arguments = command(*toy, "--max-steps", 100_000, "--metrics-port", port, "--run", "proof", "--log-every", 5,
                        "--validate-every", 4, "--checkpoint-every", 4,
                        *(["--metrics-web-config", web] if scheme == "https" else []))  # fmt: skip
    with subprocess.Popen(
        arguments, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL, env=environment()
    ) as process:
        try:
            families = poll(f"{scheme}://127.0.0.1:{port}", context, "voxyard_train_checkpoint_duration_seconds")
        finally:
            process.kill()
    spent = {each.labels["phase"]: each.value for each in families["voxyard_train_phase_seconds"].samples}
    assert all(spent[phase] > 0 for phase in ("warm_up", "train", "validate", "checkpoint")), spent
    assert sum(each.value for each in families["voxyard_train_phase"].samples) == 1
    samples = {sample.name: sample for family in families.values() for sample in family.samples}
    assert samples["voxyard_train_active"].value == 1
    assert samples["voxyard_train_steps_total"].labels == {"run": "proof"}
    shapes = [each for each in families["voxyard_train_shape_seconds"].samples if each.value > 0]
    assert shapes
    assert all(re.fullmatch(r"4x\d+", each.labels["shape"]) for each in shapes)
    assert samples["voxyard_train_samples_total"].value == 4 * samples["voxyard_train_steps_total"].value
    assert samples["voxyard_train_ring_slots"].value == 3
    assert {
        "voxyard_train_step_duration_seconds",
        "voxyard_train_data_wait_seconds",
        "voxyard_train_learning_rate",
    } <= set(families)


def poll(address: str, context: ssl.SSLContext, until: str) -> dict[str, Metric]:
    end = time.monotonic() + 240
    while time.monotonic() < end:
        try:
            with urllib.request.urlopen(f"{address}/metrics", timeout=60, context=context) as answer:  # noqa: S310 - ours
                families = {f.name: f for f in text_string_to_metric_families(answer.read().decode())}
        except OSError:
            families = {}
        if until in families and families[until].samples:
            return families
        time.sleep(0.2)
    raise AssertionError(f"{until} never appeared")


def test_a_taken_metrics_port_is_a_clear_error(toy, voxyard):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        done = voxyard(*toy, "--max-steps", 3, "--metrics-port", taken.getsockname()[1])
    assert_refused(done, "port", str(done.args[-1]))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (["--train-data", "/nowhere/at/all"], ["/nowhere/at/all"]),
        (["--batch-size", 400], ["needs 400 clips", "--batch-size"]),
        (["--model-module", "toy:broken"], ["without sample_rate", "Trainable"]),
        (["--model-module", "nosuchmodule:make"], ["nosuchmodule", "PYTHONPATH"]),
        (["--model-module", "toy"], ["package.module:factory"]),
        (["--strategy", "multiworker"], ["--strategy multiworker without --hosts", "--hosts 10.0.0.1:2222"]),
        (["--auto"], ["no effect with --device cpu"]),
        (["--model-gpu", 0], ["one device"]),
        (["--model-gpu", 7], ["Insufficient", "found 2", "--cpu-devices"]),
        (["--init-from", "/nowhere"], ["/nowhere", "no checkpoint"]),
        (["--cache-dataset", "--cache-file", "x"], ["one of them"]),
        (["--metrics-port", 9, "--metrics-web-config", "/nowhere.yaml"], ["/nowhere.yaml"]),
    ],
)
def test_what_cannot_be_done_is_refused_with_a_sentence(toy, voxyard, change, words):
    """Found, expected, what to do; exit code 2, no traceback."""
    assert_refused(voxyard(*toy, "--max-steps", 3, *change), *words)


def assert_refused(done: subprocess.CompletedProcess[str], *words: str) -> None:
    assert done.returncode == 2, done.stderr
    assert "Traceback" not in done.stderr
    for word in words:
        assert word in done.stderr, done.stderr


def test_one_clip_only_is_reported_to_be_too_few_and_trains_alone(toy, voxyard, tmp_path):
    one = write_tones(tmp_path / "one", 1)
    arguments = [one if argument == toy[toy.index("--train-data") + 1] else argument for argument in toy]
    assert_refused(voxyard(*arguments, "--max-steps", 3), "needs 4 clips and the corpus has 1")
    alone = voxyard(*arguments, "--max-steps", 3, "--batch-size", 1)
    assert alone.returncode == 0, alone.stderr


def test_a_loss_that_is_not_finite_ends_the_run_with_exit_code_1(toy, voxyard, tmp_path):
    done = voxyard(*toy, "--max-steps", 500, "--learning-rate", 1e30, "--log-every", 1)
    assert done.returncode == 1
    assert "not finite at step" in done.stderr
    assert "--learning-rate" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("cache", [["--cache-dataset"], ["--cache-file", "CACHE"]])
def test_with_a_cache_each_clip_is_decoded_once(toy, voxyard, tmp_path, tones, cache):
    """After the first epoch the recordings are not needed any more."""
    arguments = [tmp_path / "clips" if part == "CACHE" else part for part in cache]
    done = voxyard(*toy, "--max-steps", 30, *arguments, "--json")
    assert done.returncode == 0, done.stderr
    plain = voxyard(*[a if a != tmp_path / "run" else tmp_path / "plain" for a in toy], "--max-steps", 30, "--json")
    assert json.loads(done.stdout)["losses"] == json.loads(plain.stdout)["losses"]
    if "CACHE" in cache:
        assert (tmp_path / "clips").stat().st_size > 40 * 0.4 * 22050 * 2
