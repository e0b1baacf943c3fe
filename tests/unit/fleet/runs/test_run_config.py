"""Run settings: validated by the trainer's models before anything is sent, without TensorFlow."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from fleet.errors import FleetError
from fleet.runs.config import RunSettings, flags_of, folders_of, ignored_settings, read_file, shards_key, validate

DATA, MODEL = "GPU-00000000-aaaa-bbbb-cccc-000000000000", "GPU-00000001-aaaa-bbbb-cccc-000000000000"
PLAN = f"""
release: 0123456789ab
data: {{data_gpu: {DATA}, model_gpu: {MODEL}, prefetch_buffer_size: 4}}
training: {{batch_size: 16, enable_memory_isolation: true, data_gpu_memory: 8192, model_gpu_memory: 16384}}
""".encode()


def refusal(text: str, *flags: tuple[str, str]) -> str:
    with pytest.raises(FleetError) as refused:
        validate(RunSettings(text.encode(), flags), name="my.yaml", plan=PLAN)
    assert refused.value.exit_code == 2
    return str(refused.value)


def test_every_mistake_is_named_by_file_and_line() -> None:
    said = refusal("training:\n  batch_size: big\nmodel:\n  sise: tiny\n")
    assert "my.yaml:2: training.batch_size: found the text 'big'" in said
    assert "my.yaml:4: unknown key model.sise: did you mean model.size?" in said


def test_a_mistake_on_the_command_line_is_named_by_its_flag() -> None:
    assert "--max-steps: found the text 'many'" in refusal("", ("training.max_steps", "many"))


def test_what_the_trainer_would_refuse_is_refused_here() -> None:
    said = refusal("training: {strategy: single, enable_memory_isolation: true, data_gpu_memory: 100}")
    assert "--data-gpu-memory has no effect with strategy single" in said


def test_flags_come_before_the_file_and_the_file_before_the_hosts_plan() -> None:
    settings = RunSettings(
        b"training: {batch_size: 4, max_steps: 10}\ndata: {prefetch_buffer_size: 2}", (("training.max_steps", "20"),)
    )
    config = validate(settings, plan=PLAN).config
    assert (config.training.max_steps, config.training.batch_size) == (20, 4)
    assert (config.data.prefetch_buffer_size, config.data.model_gpu) == (2, MODEL)


def test_the_operators_own_environment_is_none_of_the_hosts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VOXYARD_TRAIN_BATCH_SIZE", "99")
    monkeypatch.setenv("VOXYARD_HOST_PLAN", "/nowhere")
    assert validate(RunSettings(), plan=PLAN).config.training.batch_size == 16


def test_the_plan_is_called_the_hosts_in_messages() -> None:
    with pytest.raises(FleetError, match=r"plan\.yaml of the host:1: training\.batch_size"):
        validate(RunSettings(), plan=b"training: {batch_size: x}")


def test_flags_become_options_of_the_trainer() -> None:
    named = {"training.max_steps": "20", "training.device": ""}
    flags = flags_of(["model.size=small", "training.xla=false", "telemetry.tensorboard=true"], named)
    assert RunSettings(b"", flags).words() == ["--model-size=small", "--tensorboard", "--max-steps=20", "--no-xla"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("training.max_step=3", "is training.max_steps meant"),
        ("max_steps", "expected section.key=value"),
        ("training.checkpoint_dir=/x", "the run's directory on the host"),
        ("training.resume=false", "true with --resume"),
        ("data.train_data=/x", "--corpus"),
    ],
)
def test_a_setting_that_cannot_be_given_here_is_refused(text: str, said: str) -> None:
    with pytest.raises(FleetError, match=said):
        flags_of([text], {})


def test_what_the_deployment_sets_is_reported_as_without_effect() -> None:
    lines = ignored_settings(
        validate(RunSettings(b"training: {checkpoint_dir: here}\ntelemetry: {metrics_port: 9000}"), name="a.yaml")
    )
    assert [line.partition(" ")[0] for line in lines] == ["training.checkpoint_dir", "telemetry.metrics_port"]
    assert "a.yaml:2" in lines[1]


def test_what_a_run_reads_is_in_its_settings_and_the_option_comes_first(tmp_path: Path) -> None:
    config = validate(RunSettings(b"data: {train_data: /a, val_data: /b}\ntraining: {init_from: /c}")).config
    assert folders_of(config, None) == {"train": Path("/a"), "validation": Path("/b"), "init": Path("/c")}
    assert folders_of(config, tmp_path)["train"] == tmp_path
    with pytest.raises(FleetError, match="--corpus DIR"):
        folders_of(validate(RunSettings()).config, None)


def test_shards_are_recreated_where_the_model_hears_otherwise() -> None:
    keys = {shards_key(validate(RunSettings(text)).config) for text in (b"", b"training: {seed: 7}")}
    assert len(keys) == 1
    assert shards_key(validate(RunSettings(b"model: {sample_rate: 16000, mel_high_hz: 7000}")).config) not in keys


def test_a_missing_file_is_reported(tmp_path: Path) -> None:
    assert read_file(None) == b""
    with pytest.raises(FleetError, match=r"no\.yaml: cannot be read: No such file"):
        read_file(tmp_path / "no.yaml")


@pytest.mark.slow
def test_validation_needs_neither_tensorflow_nor_numpy() -> None:
    program = (
        "import sys; sys.path.insert(0, 'scripts'); from fleet.runs.config import RunSettings, validate; "
        "validate(RunSettings()); import fleet.runs.runs, fleet.runs.fetch; "
        "sys.exit(', '.join({'tensorflow', 'keras', 'numpy', 'soundfile', 'pynvml'} & set(sys.modules)) or 0)"
    )
    root = Path(__file__).resolve().parents[4]
    done = subprocess.run([sys.executable, "-c", program], cwd=root, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
