"""Valid settings files, and the sentences for invalid ones."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from voxyard.settings import Loaded, SettingsError, load, settings_of
from voxyard.trainer.config import ALIASES, TrainConfig

KEYS = [each.key for each in settings_of(TrainConfig)]


def _load(path: Path, content: str | bytes) -> Loaded[TrainConfig]:
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return load(TrainConfig, file=path, environ={}, aliases=ALIASES)


def _problems(path: Path, content: str | bytes) -> list[str]:
    with pytest.raises(SettingsError) as caught:
        _load(path, content)
    return [problem.replace(str(path), "f") for problem in caught.value.problems]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Path of the test's file."""
    return tmp_path / "train.yaml"


@pytest.mark.parametrize("text", ["1e-4", "1E-4", "1.0e-4", "0.0001", "+1e-4", ".1e-3", "1.e-4"])
def test_every_spelling_of_a_small_number_is_that_number(file: Path, text: str) -> None:
    """`1e-4` is a float."""
    assert _load(file, f"training:\n  learning_rate: {text}\n").config.training.learning_rate == 1e-4


@pytest.mark.parametrize("text", ["no", "on", "2026-01-01", "12:30:00", "0o9", "1_000", "null2", "1e", "'7'"])
def test_words_that_yaml_is_known_to_mistake_stay_texts(file: Path, text: str) -> None:
    assert _load(file, f"telemetry:\n  run: {text}\n").config.telemetry.run == text.strip("'")


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ('batch_size: "8"', "batch_size: found the text '8', expected a whole number of at least 1"),
        ("batch_size: 8.0", "batch_size: found 8.0, expected a whole number of at least 1"),
        ("batch_size: 0", "batch_size: found 0, expected a whole number of at least 1"),
        ("batch_size: true", "batch_size: found true, expected a whole number of at least 1"),
        ("batch_size: [8]", "batch_size: found a list, expected a whole number of at least 1"),
        (
            "learning_rate: .nan",
            "learning_rate: found a number that is not finite, expected a number above 0",
        ),
        ("learning_rate: fast", "learning_rate: found the text 'fast', expected a number above 0"),
        ("resume: 1", "resume: found 1, expected true or false"),
        ("resume: yes", "resume: found the text 'yes', expected true or false"),
        (
            "precision: half",
            "precision: found the text 'half', expected one of auto, float32, bfloat16, float16",
        ),
        ("checkpoint_dir: 3", "checkpoint_dir: found 3, expected a path"),
        ("checkpoint_dir: {a: b}", "checkpoint_dir: found a mapping, expected a path"),
    ],
)
def test_a_wrong_type_names_file_line_key_found_and_expected(file: Path, line: str, problem: str) -> None:
    assert _problems(file, f"# old\n\ntraining:\n  {line}\n") == [f"f:4: training.{problem}"]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (
            "training:\n  max_step: 3\n",
            "f:2: unknown key training.max_step: did you mean training.max_steps?",
        ),
        ("data:\n  seed: 3\n", "f:2: unknown key data.seed: did you mean training.seed?"),
        ("batch_size: 8\n", "f:1: batch_size stands outside a section: it belongs to `training:`"),
        ("trainning:\n  seed: 1\n", "f:1: unknown section trainning: did you mean training?"),
        ("zzz: 1\n", "f:1: unknown section zzz: expected model, data, training, telemetry"),
        ("training: 8\n", "f:1: section training: expected keys below it, found a single value"),
        ("training:\n- seed: 1\n", "f:1: section training: expected keys below it, found a list"),
        ("data:\n  ? [a, b]\n  : 1\n", "f:2: expected a name before the colon, found a list"),
    ],
)
def test_an_unknown_name_is_an_error_with_the_nearest_known_one(file: Path, text: str, problem: str) -> None:
    assert _problems(file, text) == [problem]


def test_a_far_fetched_key_is_answered_with_the_keys_there_are(file: Path) -> None:
    (problem,) = _problems(file, "telemetry:\n  qqqqqq: 1\n")
    assert problem.startswith("f:2: unknown key telemetry.qqqqqq: telemetry has run, metrics_port, ")


def test_all_errors_of_a_file_come_together_in_the_order_of_its_lines(file: Path) -> None:
    text = "trainig: {}\nmodel:\n  size: huge\n  size: tiny\ndata:\n  num_worker: 4\ntraining:\n  seed: x\n"
    assert _problems(file, text) == [
        "f:1: unknown section trainig: did you mean training?",
        "f:3: model.size: found the text 'huge', expected one of tiny, small, normal, big",
        "f:4: model.size stands here a second time, first on line 3",
        "f:6: unknown key data.num_worker: did you mean data.num_workers?",
        "f:8: training.seed: found the text 'x', expected a whole number from 0 to 2147483647",
    ]


def test_a_section_that_stands_twice_is_an_error(file: Path) -> None:
    """YAML readers silently keep the second."""
    text = "training:\n  seed: 1\ntraining:\n  epochs: 2\n"
    assert _problems(file, text) == ["f:3: training stands here a second time, first on line 1"]


@pytest.mark.parametrize("text", ["", "\n", "# nothing\n", "---\n", "---\n...\n", "null\n", "{}\n", "training:\n"])
def test_an_empty_file_or_section_sets_nothing(file: Path, text: str) -> None:
    loaded = _load(file, text)
    assert set(loaded.origins.values()) == {"default"}


def test_null_is_the_default_and_hides_the_host_plan(file: Path, tmp_path: Path) -> None:
    """A key with nothing behind it says: as if nobody had set it."""
    plan = tmp_path / "plan.yaml"
    plan.write_text("training:\n  batch_size: 32\n  seed: 7\n")
    file.write_text("training:\n  batch_size:\n  seed: null\n")
    loaded = load(TrainConfig, file=file, host_plan=plan, environ={})
    assert (loaded.config.training.batch_size, loaded.config.training.seed) == (None, 0)
    assert loaded.origins["training.seed"] == f"{file}:3"


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"training:\n  seed: 1\xff\n", "f:2: not UTF-8 text (byte 0xff)"),
        (b"training:\n\0", "f:2: control character U+0000, expected text"),
        (b"\x7fELF\x02\x01\x01", "f:1: control character U+007F, expected text"),
        (b"training:\n\tseed: 1\n", "f:2: a tab where YAML wants spaces: indent with spaces"),
        (b"- a\n- b\n", "f:1: expected sections such as `training:` with keys below them, found a list"),
        (b"hello\n", "f:1: expected sections such as `training:` with keys below them, found a single value"),
        (b"training: {seed: 1\n", "f:2: not YAML"),
        (b"training: {}\n---\ndata: {}\n", "f:2: a second YAML document begins here, expected one"),
        (b"data: &a {}\nmodel: *a\n", "f:1: anchors and aliases (& and *) are not taken here"),
        (b"data: *nobody\n", "f:1: anchors and aliases (& and *) are not taken here"),
        (b"data: " + b"[" * 5000, "f:1: nested more than 20 levels deep"),
        (
            b"data:\n  cache_file: !!python/name:os.system\n",
            "f:2: the tag tag:yaml.org,2002:python/name:os.system",
        ),
        (
            b"telemetry:\n  run: !!binary aGVsbG8=\n",
            "f:2: the tag tag:yaml.org,2002:binary is not taken here",
        ),
        (b'telemetry:\n  run: "\\UFFFFFFFF"\n', "f:2: not readable as YAML"),
        (b'telemetry:\n  run: "a\\0b"\n', "f:2: telemetry.run: found a text with a NUL character"),
        (b"training:\n  seed: " + b"9" * 5000, "f:2: training.seed: found the text '999"),
        (b"%YAML " + b"9" * 5000 + b".1\n---\n{}\n", "f:"),
        (b"#" * (1 << 20) + b"\n", "f: larger than 1 MiB, which is no settings file"),
    ],
    ids=lambda value: value[:24].decode("latin-1") if isinstance(value, bytes) else "",
)
def test_a_broken_file_is_refused_with_a_sentence(file: Path, content: bytes, problem: str) -> None:
    (found,) = _problems(file, content)
    assert found.startswith(problem)
    assert len(found) < 300


def test_a_billion_laughs_are_refused_before_they_are_told(file: Path) -> None:
    lines = ["a0: &a0 [ha, ha]"]
    lines += [f"a{n}: &a{n} [*a{n - 1}, *a{n - 1}, *a{n - 1}]" for n in range(1, 40)]
    assert _problems(file, "\n".join(lines)) == ["f:1: anchors and aliases (& and *) are not taken here"]


def test_a_missing_file_a_directory_and_an_unreadable_one_are_told_apart(tmp_path: Path) -> None:
    loop = tmp_path / "loop.yaml"
    loop.symlink_to(loop)
    expected = {
        tmp_path / "none.yaml": "no such file",
        tmp_path: "is a directory, expected a YAML file",
        loop: "cannot be read: Too many levels of symbolic links",
        tmp_path / ("n" * 300): "cannot be read: File name too long",
        Path("a\0b"): "cannot be read: embedded null byte",
    }
    for path, sentence in expected.items():
        with pytest.raises(SettingsError) as caught:
            load(TrainConfig, file=path, environ={})
        assert sentence in str(caught.value)
        assert "(--config, or VOXYARD_CONFIG: expected a YAML file of settings; correct the path, " in str(caught.value)


def test_a_file_may_come_through_a_pipe(tmp_path: Path) -> None:
    """`--config <(generate)`."""
    read, write = os.pipe()
    with os.fdopen(write, "wb") as file:
        file.write(b"training: {seed: 5}\n")
    assert load(TrainConfig, file=Path(f"/dev/fd/{read}"), environ={}).config.training.seed == 5
    os.close(read)


def test_a_broken_host_plan_is_named_as_such(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"^host plan /nowhere/plan.yaml: no such file \(VOXYARD_HOST_PLAN, or --p"):
        load(TrainConfig, environ={"VOXYARD_HOST_PLAN": "/nowhere/plan.yaml"})
    plan = tmp_path / "plan.yaml"
    plan.write_text("training:\n  seed: x\n")
    with pytest.raises(SettingsError, match=f"^host plan {plan}:2: training.seed: found "):
        load(TrainConfig, environ={}, host_plan=plan)


_PIECES = (
    "training:¦data:¦\n¦\n  ¦  ¦1e-4¦8¦'¦\"¦{¦}¦[¦]¦: ¦- ¦? ¦| ¦> ¦&a ¦*a ¦!!int ¦!x ¦%YAML 1.1\n¦---\n¦\t"
    "¦\\x¦\\u12¦\\UFFFFFFFF¦#¦~¦true¦.inf¦<<: ¦\0¦é¦\ud7ff¦\u2028¦99999999999999999999999999999999999999"
)
_SNIPPETS = st.sampled_from([*_PIECES.split("¦"), *(f"{key.partition('.')[2]}: " for key in KEYS)])
_ANY_BYTES = st.one_of(
    st.binary(max_size=300),
    st.text(max_size=300).map(lambda text: text.encode("utf-8", "surrogatepass")),
    st.lists(_SNIPPETS, max_size=40).map(lambda parts: "".join(parts).encode()),
)


@given(content=_ANY_BYTES)
@example(content=b"%YAML 1.\n")
@example(content=b"%")
@example(content=b'"\\uD800": {}')
@example(content=b'telemetry: {run: "\\uD800"}')
@hypothesis_settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_bytes_either_load_or_are_refused(tmp_path: Path, content: bytes) -> None:
    """Never another exception, and each refusal is a printable sentence that names the file."""
    path = tmp_path / "any.yaml"
    try:
        loaded = _load(path, content)
    except SettingsError as error:
        assert error.problems
        for problem in error.problems:
            assert str(path) in problem or problem.startswith("model: ")
            assert problem.isprintable()
    else:
        assert set(loaded.origins) == set(KEYS)


@pytest.mark.parametrize(("text", "value"), [("0x10", 16), ("0o17", 15), ("16", 16)])
def test_a_whole_number_may_be_hexadecimal_or_octal(tmp_path: Path, text: str, value: int) -> None:
    assert _load(tmp_path / "f.yaml", f"training: {{batch_size: {text}}}").config.training.batch_size == value


def test_the_example_names_every_setting_and_sets_none(file: Path) -> None:
    text = (Path(__file__).resolve().parents[3] / "deploy/train.example.yaml").read_text(encoding="utf-8")
    assert _load(file, text).config == TrainConfig()
    named = re.findall(r"^(\w+):$|^  #(\w+):", text, re.MULTILINE)
    section, keys = "", []
    for head, name in named:
        section = head or section
        keys += [f"{section}.{name}"] if name else []
    assert keys == KEYS


def test_every_default_of_the_example_is_the_default(file: Path) -> None:
    text = (Path(__file__).resolve().parents[3] / "deploy/train.example.yaml").read_text(encoding="utf-8")
    taken = re.sub(r"^  #(\w+:)", r"  \1", text, flags=re.MULTILINE)
    assert _load(file, taken).config == TrainConfig()
