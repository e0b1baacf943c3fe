"""The command line's manners: where it prints, how it refuses, how it ends."""

from __future__ import annotations

import errno
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import pytest
from command_line import Command
from eventually import PATIENCE

import voxyard.trainer.api
from voxyard import __version__, cli
from voxyard.cli.base import LazyGroup
from voxyard.settings import SettingsCommand
from voxyard.trainer import TrainConfig, TrainerError


@pytest.fixture
def voxyard_command(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Command:
    return Command(capsys, monkeypatch)


class FakeReport:
    """Report of a run, faked."""

    exit_code = 0

    def render(self) -> str:
        return "steps 3"

    def to_json(self) -> dict[str, Any]:
        return {"steps": 3}


def _train_as(monkeypatch: pytest.MonkeyPatch, seen: list[TrainConfig], error: BaseException | None = None) -> None:
    def train(config: TrainConfig) -> FakeReport:
        seen.append(config)
        if error is not None:
            raise error
        return FakeReport()

    monkeypatch.setattr(voxyard.trainer.api, "train", train)


def test_flags_reach_the_trainer_and_its_report_is_the_output(
    voxyard_command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[TrainConfig] = []
    _train_as(monkeypatch, seen)
    ended = voxyard_command("train", "--batch-size", "8", "--no-resume", "--data-gpu", "0", "--model-gpu", "1")
    assert (ended.code, ended.out, ended.err) == (0, "steps 3\n", "")
    assert (seen[0].training.batch_size, seen[0].training.resume, seen[0].data.model_gpu) == (8, False, 1)


def test_json_is_all_that_is_printed(voxyard_command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    _train_as(monkeypatch, [])
    assert json.loads(voxyard_command("train", "--json").out) == {"steps": 3}


def test_the_file_may_be_named_by_a_variable(
    voxyard_command: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    seen: list[TrainConfig] = []
    _train_as(monkeypatch, seen)
    (tmp_path / "train.yaml").write_text("training:\n  seed: 11\n")
    monkeypatch.setenv("VOXYARD_CONFIG", str(tmp_path / "train.yaml"))
    assert voxyard_command("train").code == 0
    assert seen[0].training.seed == 11


def test_settings_that_are_wrong_are_lines_on_standard_error(voxyard_command: Command, tmp_path: Path) -> None:
    file = tmp_path / "train.yaml"
    file.write_text("training:\n  max_step: 3\n")
    ended = voxyard_command("train", "--config", str(file), "--seed", "x")
    assert (ended.code, ended.out) == (2, "")
    assert ended.err.splitlines() == [
        f"voxyard train: {file}:2: unknown key training.max_step: did you mean training.max_steps?",
        "voxyard train: --seed: found the text 'x', expected a whole number from 0 to 2147483647",
    ]


def test_what_became_of_old_keys_is_told_on_standard_error(
    voxyard_command: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    _train_as(monkeypatch, [])
    file = tmp_path / "old.yaml"
    file.write_text("data:\n  pin_memory: true\n")
    ended = voxyard_command("train", "--config", str(file))
    assert ended.out == "steps 3\n"
    assert ended.err.startswith(f"{file}:2: data.pin_memory has no effect any more")
    assert len(ended.err.splitlines()) == 1


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ("keys list --file=~/keys.yaml", "alice"),
        ("topology --from=~/matrix.txt", "NV12"),
        ("speak ~/story.txt --engine=espeak --show-words --config=~/speak.yaml --lexicon=~/words.yaml", "a sequel."),
        ("speak story.txt --engine=espeak --show-words", "there is no file story.txt"),
        ("weights tiny {}", "Invalid value for 'DIRECTORY': found an empty text, expected a path"),
        ("export --checkpoint run --out={}", "Invalid value for '--out': found an empty text, expected a path"),
        ("speak ./~/story.txt --engine=espeak --show-words", "another home."),
        ("speak ~lock.txt --engine=espeak --show-words", "a lock."),
    ],
)
def test_a_tilde_that_the_shell_leaves_is_the_home_and_no_path_is_empty(
    voxyard_command: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, arguments: str, says: str
) -> None:
    """In `--out=~/a.wav` and within quotes, as in opm/opm-simulators#5063 and emmercm/igir#1405."""
    home, here = tmp_path / "home", tmp_path / "here"
    for path, text in {
        home / "keys.yaml": f"alice: {'0' * 64}\n",
        home / "matrix.txt": "\tGPU0\tGPU1\nGPU0\t X \tNV12\nGPU1\tNV12\t X \n",
        home / "speak.yaml": "speak: {seed: 3}\n",
        home / "words.yaml": "SQL: sequel\n",
        home / "story.txt": "This is a SQL.",
        here / "~" / "story.txt": "This is another home.",
        here / "~lock.txt": "This is a lock.",
    }.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.chdir(here)
    ended = voxyard_command(*(each.format("") for each in arguments.split()))
    assert says in ended.out + ended.err


SPEAK = "speak text.vtt --engine espeak --out "
KEPT = [
    (SPEAK + "words.wav --lexicon words.wav", "--out words.wav would replace --lexicon words.wav"),
    (SPEAK + "link.wav --lexicon words.wav", "--out link.wav would replace --lexicon words.wav"),
    (SPEAK + "folder/../words.wav --lexicon words.wav", "--out folder/../words.wav would replace --lexicon words.wav"),
    (SPEAK + "hard.wav --config speak.yaml", "--out hard.wav would replace --lexicon words.wav"),
    (SPEAK + "settings.wav --config settings.wav", "--out settings.wav would replace --config settings.wav"),
    (SPEAK + "text.wav", "--out text.wav would replace FILE text.vtt"),
    (SPEAK + "text.m4b", "the captions text.vtt would replace FILE text.vtt"),
    ("synthesize text.vtt --checkpoint run --out text.wav", "--out text.wav would replace FILE text.vtt"),
    ("synthesize --text Hi. --checkpoint run --out a --mel folder/../a", "--out a would replace --mel folder/../a"),
    (
        "train --train-data words.wav --cache-file link.wav",
        "--cache-file link.wav would replace --train-data words.wav",
    ),
    ("profile --train-data words.wav --html link.wav", "--html link.wav would replace --train-data words.wav"),
    ("diagnose --config file.yaml --out file.yaml", "--out file.yaml would replace --config file.yaml"),
    ("exporter --plan file.yaml --record file.yaml", "--record file.yaml would replace --plan file.yaml"),
    ("keys lexicon mia text.vtt --file text.wav", "--file text.wav would replace LEXICON text.vtt"),
]


@pytest.mark.parametrize(("arguments", "says"), KEPT)
def test_no_command_writes_over_what_it_reads(
    voxyard_command: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, arguments: str, says: str
) -> None:
    _train_as(monkeypatch, [])
    _stop_at_the_work(monkeypatch)
    monkeypatch.chdir(tmp_path)
    Path("folder").mkdir()
    for name, text in {
        "text.vtt": "Hi.", "words.wav": "SQL: sequel", "speak.yaml": "speech: {lexicon: words.wav}",
        "settings.wav": "", "file.yaml": "",
    }.items():  # fmt: skip
        Path(name).write_text(text)
    Path("link.wav").symlink_to("words.wav")
    Path("text.wav").symlink_to("text.vtt")
    Path("hard.wav").hardlink_to("words.wav")
    before = {path: path.read_bytes() for path in Path().iterdir() if path.is_file()}
    ended = voxyard_command(*arguments.split())
    assert ended.code == 2
    assert f"Error: {says}: name another file" in ended.err
    assert {path: path.read_bytes() for path in Path().iterdir() if path.is_file()} == before


SETTINGS_COMMANDS = {
    "train": ("--describe", "VOXYARD_DEVICE", "VOXYARD_TRAIN_DEVICE"),
    "profile": ("--strategy multiworker", "VOXYARD_TRAIN_STRATEGIE", "VOXYARD_TRAIN_STRATEGY"),
    "validate": ("--checklist", "VOXYARD_BATCH_SIZE", "VOXYARD_TRAIN_BATCH_SIZE"),
    "stress": ("--strategy multiworker", "VOXYARD_BATCH_SIZE", "VOXYARD_TRAIN_BATCH_SIZE"),
    "diagnose": ("--out a.tar.gz", "VOXYARD_TRAIN_DEVIZE", "VOXYARD_TRAIN_DEVICE"),
    "speak": ("missing.txt --out a.wav --model none", "VOXYARD_VOICE", "VOXYARD_SPEAK_VOICE"),
    "serve": ("--port 0 --model none", "VOXYARD_PORT", "VOXYARD_SERVICE_PORT"),
    "exporter": ("--probe --port 1", "VOXYARD_PORT", "VOXYARD_EXPORTER_PORT"),
    "corpus check": ("none", "VOXYARD_LANGUAGE", "VOXYARD_TRAIN_LANGUAGE"),
    "corpus prepare": ("none shards", "VOXYARD_LANGUAGE", "VOXYARD_TRAIN_LANGUAGE"),
}
"""Commands that load settings: arguments that end them early, a wrong variable, and the right one."""


@pytest.mark.parametrize("command", SETTINGS_COMMANDS)
def test_every_command_names_a_variable_without_effect(
    voxyard_command: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, command: str
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(voxyard.trainer.api, "describe", lambda: "tiny 6 M")
    _stop_at_the_work(monkeypatch)
    arguments, wrong, meant = SETTINGS_COMMANDS[command]
    monkeypatch.setenv(wrong, "1")
    ended = voxyard_command(*command.split(), *arguments.split())
    assert f"{wrong} is no setting and has no effect: did you mean {meant}?" in ended.err.splitlines()


@pytest.mark.parametrize(
    ("arguments", "work"),
    [((), "run.validate"), (("--checklist",), "checklist.checklist")],
)
def test_a_validation_is_printed_and_its_verdict_is_the_exit_code(
    voxyard_command: Command, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], work: str
) -> None:
    class Failed:
        exit_code = 1

        def text(self) -> str:
            return "1 check failed"

        def document(self) -> dict[str, bool]:
            return {"ok": False}

    monkeypatch.setattr(f"voxyard.diagnose.validate.{work}", lambda *_, **__: Failed())
    ended = voxyard_command("validate", *arguments)
    assert (ended.code, ended.out) == (1, "1 check failed\n")
    ended = voxyard_command("validate", *arguments, "--json")
    assert (ended.code, json.loads(ended.out)) == (1, {"ok": False})


def _stop_at_the_work(monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(*_: object, **__: object) -> None:
        raise TrainerError("no further in this test")

    for function in ("bundle.collect.diagnose", "profile.run.profile", "stress.run.stress"):
        monkeypatch.setattr(f"voxyard.diagnose.{function}", stop)
    monkeypatch.setattr("voxyard.diagnose.validate.checklist.checklist", stop)


def test_the_commands_with_settings_are_all_tried() -> None:
    assert set(_settings_commands(cli.voxyard)) == set(SETTINGS_COMMANDS)


def _settings_commands(group: click.Group, path: str = "") -> Iterator[str]:
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if isinstance(command, click.Group):
            yield from _settings_commands(command, f"{path}{name} ")
        elif isinstance(command, SettingsCommand):
            yield f"{path}{name}"


@pytest.mark.parametrize(
    ("command", "prefixes"),
    [
        ("train", ["TRAIN"]),
        ("speak", ["SPEAK", "SPEECH", "BARK"]),
        ("serve", ["SERVICE", "SPEECH", "BARK"]),
        ("exporter", ["EXPORTER"]),
    ],
)
def test_help_names_the_prefixes_of_the_variables(voxyard_command: Command, command: str, prefixes: list[str]) -> None:
    text = " ".join(voxyard_command(command, "--help").out.split())
    assert [prefix for prefix in prefixes if f"environment variables VOXYARD_{prefix}_…" not in text] == []
    assert "(VOXYARD_ and" not in text


def _every_help(group: click.Group, path: str = "voxyard") -> Iterator[tuple[str, str]]:
    context = click.Context(group, info_name=path)
    yield path, group.get_help(context)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if isinstance(command, click.Group):
            yield from _every_help(command, f"{path} {name}")
        elif command is not None:
            yield f"{path} {name}", command.get_help(click.Context(command, info_name=name, parent=context))


def test_help_has_no_row_without_text_no_empty_default_and_no_sentence_cut_off() -> None:
    helps = dict(_every_help(cli.voxyard))
    assert len(helps) > 20
    assert [path for path, text in helps.items() if "default: ]" in " ".join(text.split())] == []
    assert [path for path, text in helps.items() if "..." in text.replace("[ARGS]...", "")] == []
    assert [path for path, text in helps.items() if re.search(r"^  [A-Z]+$", text, re.MULTILINE)] == []


def test_a_run_that_fell_short_reports_and_ends_with_its_code(
    voxyard_command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The report is printed all the same."""
    _train_as(monkeypatch, [])
    monkeypatch.setattr(FakeReport, "exit_code", 1)
    ended = voxyard_command("train")
    assert (ended.code, ended.out) == (1, "steps 3\n")


@pytest.mark.parametrize("code", [1, 2])
def test_a_refusal_is_a_sentence_with_its_exit_code(
    voxyard_command: Command, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    _train_as(monkeypatch, [], TrainerError("the loss is not finite", exit_code=code))
    ended = voxyard_command("train")
    assert (ended.code, ended.out, ended.err) == (code, "", "voxyard train: the loss is not finite\n")


def test_a_missing_tensorflow_is_a_sentence_that_says_what_to_install(
    voxyard_command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    _train_as(monkeypatch, [], ModuleNotFoundError("No module named 'tensorflow'", name="tensorflow"))
    ended = voxyard_command("train")
    assert ended.code == 2
    assert ended.err.startswith("voxyard train: needs tensorflow, which is not installed: pip install 'voxyard[")
    assert "several GB" in ended.err
    assert len(ended.err.splitlines()) == 1


@pytest.mark.parametrize(
    "command", ["serve --engine bark", "speak book.txt --engine bark --out book.wav", "weights tiny out"]
)
def test_without_torch_nothing_is_begun_and_one_sentence_says_what_to_do(
    voxyard_command: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, command: str
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delitem(sys.modules, "safetensors.torch", raising=False)
    monkeypatch.setitem(sys.modules, "torch", None)
    ended = voxyard_command(*command.split())
    assert (ended.code, ended.out) == (2, "")
    assert "needs torch, which is not installed: make setup TORCH=auto in voxyard's directory" in ended.err
    assert len(ended.err.splitlines()) == 1
    assert list(tmp_path.iterdir()) == []


def test_a_mistake_of_ours_keeps_its_traceback(voxyard_command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    _train_as(monkeypatch, [], ModuleNotFoundError("No module named 'voxyard.gone'", name="voxyard.gone"))
    monkeypatch.setattr(sys, "argv", ["voxyard", "train"])
    with pytest.raises(ModuleNotFoundError):
        cli.main()


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (OSError(errno.ENAMETOOLONG, "File name too long", "runs/aaa"), "voxyard: runs/aaa: File name too long\n"),
        (PermissionError(errno.EACCES, "Permission denied", b"runs/b"), "voxyard: runs/b: Permission denied\n"),
        (OSError(errno.ENOSPC, "No space left on device"), "voxyard: No space left on device\n"),
        (OSError(errno.EMFILE, "Too many open files"), "voxyard: Too many open files\n"),
        (MemoryError(), "voxyard: out of memory: free some, or raise the limit (ulimit -v)\n"),
    ],
)
def test_an_error_of_the_system_is_a_sentence(
    voxyard_command: Command, monkeypatch: pytest.MonkeyPatch, error: Exception, said: str
) -> None:
    _train_as(monkeypatch, [], error)
    ended = voxyard_command("train")
    assert (ended.code, ended.out, ended.err) == (1, "", said)


def test_an_interrupted_command_ends_with_130(voxyard_command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    _train_as(monkeypatch, [], KeyboardInterrupt())
    ended = voxyard_command("train")
    assert (ended.code, ended.err.strip()) == (130, "voxyard: interrupted")


@pytest.mark.slow
def test_control_c_leaves_no_traceback() -> None:
    code = (
        "import sys, time, voxyard.trainer.api\n"
        "def train(config):\n    print('training', flush=True)\n    while True: time.sleep(0.05)\n"
        "voxyard.trainer.api.train = train\nsys.argv = ['voxyard', 'train']\n"
        "from voxyard.cli import main\nmain()\n"
    )
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "training\n"
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=PATIENCE)
    assert (process.returncode, err.strip()) == (130, "voxyard: interrupted")


SMALL_RESULT = (
    "import sys, voxyard.trainer.api\nvoxyard.trainer.api.describe = lambda: 'tiny'\n"
    "sys.argv = ['voxyard', 'train', '--describe']\nfrom voxyard.cli import main\nmain()\n"
)


@pytest.mark.slow
@pytest.mark.parametrize(
    "arguments", [["-m", "voxyard", "--help"], ["-m", "voxyard", "train", "--help"], ["-c", SMALL_RESULT]]
)
def test_a_reader_that_leaves_early_is_no_accident(arguments: list[str]) -> None:
    read, write = os.pipe()
    os.close(read)
    command = [sys.executable, *arguments]
    buffered = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    with os.fdopen(write, "wb") as closed:
        done = subprocess.run(command, stdout=closed, stderr=subprocess.PIPE, text=True, env=buffered)
    assert (done.returncode, done.stderr) == (1, "")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("redirected", "code", "out", "err"),
    [
        (">/dev/full", 1, "", "begun\nvoxyard: No space left on device\n"),
        ("2>/dev/full", 0, "done\n", ""),
        (">/dev/full 2>/dev/full", 1, "", ""),
        (">&-", 0, "", "begun\n"),
        ("2>&-", 0, "done\n", ""),
        ("<&- >&- 2>&-", 0, "", ""),
    ],
)
def test_output_that_cannot_be_written_ends_no_run(redirected: str, code: int, out: str, err: str) -> None:
    """A terminal that was closed, a log on a full disk."""
    source = (
        "import logging, sys, voxyard.trainer.api\n"
        "def describe():\n    logging.getLogger('voxyard.trainer').info('begun')\n    return 'done'\n"
        "voxyard.trainer.api.describe = describe\nsys.argv = ['voxyard', 'train', '--describe']\n"
        "from voxyard.cli import main\nmain()\n"
    )
    command = ["sh", "-c", f'exec "$@" {redirected}', "sh", sys.executable, "-c", source]
    done = subprocess.run(command, capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (code, out, err)


@pytest.mark.slow
def test_a_file_that_is_opened_is_no_standard_stream() -> None:
    code = SMALL_RESULT.replace("lambda: 'tiny'", "lambda: __import__('sys').exit(int(open('/dev/zero').fileno() < 3))")
    done = subprocess.run(["sh", "-c", 'exec "$@" <&- >&- 2>&-', "sh", sys.executable, "-c", code])
    assert done.returncode == 0


@pytest.mark.slow
@pytest.mark.parametrize("encoding", ["utf-8", "ascii"])
def test_a_result_that_standard_output_cannot_spell_is_printed(encoding: str) -> None:
    """A file's name of bytes that are no UTF-8, and a terminal of few letters."""
    code = SMALL_RESULT.replace("'tiny'", r"'ti\udcfcn\xfc'")
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, env={**os.environ, "PYTHONIOENCODING": encoding}, check=False
    )
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout.startswith(rb"ti\udcfcn")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["tran"], "No such command 'tran'. Did you mean 'train'?"),
        (["weights", "fecth"], "No such command 'fecth'. Did you mean 'fetch'?"),
        (["train", "--bach-size", "8"], "No such option '--bach-size'"),
        (["train", "--batch-size"], "requires an argument"),
        (["synthesize"], "Missing option '--checkpoint'"),
        (["monitor", "--duration", "nan"], "nan is not in the range x>0"),
        (["monitor", "--interval", "nan"], "nan is not in the range 0.1<=x<=10"),
        (["stress", "--stress-duration", "NaN"], "not in the range 0.1<=x<=86400"),
        (["diagnose", "--part-timeout", "nan"], "nan is not in the range x>=1"),
        (["keys", "limit", "mia", "--share", "nan"], "nan is not in the range 0.01<=x<=100"),
    ],
)
def test_wrong_use_is_exit_2_on_standard_error(voxyard_command: Command, arguments: list[str], said: str) -> None:
    ended = voxyard_command(*arguments)
    assert (ended.code, ended.out) == (2, "")
    assert said in ended.err


def test_version_and_help_are_results(voxyard_command: Command) -> None:
    assert voxyard_command("--version").out == f"voxyard {__version__}\n"
    told = voxyard_command("--help")
    assert (told.code, told.err) == (0, "")
    groups = [cli.voxyard]
    for group in groups:
        context = click.Context(group)
        for name, (sentence, _) in group.entries.items():
            command = group.get_command(context, name)
            assert command is not None
            assert (command.help or "").startswith(sentence.removesuffix("."))
            groups += [command] if isinstance(command, LazyGroup) else []
    assert len(groups) > 1
    assert all(f"  {name} " in told.out for name in cli.voxyard.entries)


def test_sizes_are_described_without_training(voxyard_command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    """`voxyard train --describe`."""
    seen: list[TrainConfig] = []
    _train_as(monkeypatch, seen)
    monkeypatch.setattr(voxyard.trainer.api, "describe", lambda: "tiny 6 M")
    ended = voxyard_command("train", "--describe")
    assert (ended.code, ended.out, seen) == (0, "tiny 6 M\n", [])


def test_the_trained_model_speaks(voxyard_command: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """What is asked reaches the trainer, and where the sound lies is printed."""

    @dataclass
    class Spoken:
        path: Path
        seconds: float
        sample_rate: int
        step: int
        mel: Path | None
        averaged: bool
        vocoder: str = "neural"

    asked: list[tuple[object, ...]] = []

    def synthesize(checkpoint: Path, text: str, out: Path, mel: Path | None, **voice: str | None) -> Spoken:
        asked.append((checkpoint, text, out, mel, *voice.values()))
        return Spoken(out, 1.5, 22050, 100, mel, averaged=True)

    monkeypatch.setattr(voxyard.trainer.api, "synthesize", synthesize)
    arguments = ["synthesize", "--checkpoint", "run", "--text", "Hello.", "--out", str(tmp_path / "x.wav")]
    ended = voxyard_command(*arguments)
    assert asked == [(Path("run"), "Hello.", tmp_path / "x.wav", None, None, None, "auto")]
    assert ended.out == f"{tmp_path / 'x.wav'}: 1.50 s at 22050 Hz, step 100, averaged weights, vocoder neural\n"
    answer = json.loads(voxyard_command(*arguments, "--json").out)
    assert answer == {
        "path": str(tmp_path / "x.wav"), "seconds": 1.5, "sample_rate": 22050, "step": 100, "mel": None,
        "averaged": True, "vocoder": "neural",
    }  # fmt: skip
    (tmp_path / "story.txt").write_text("Once upon a time.\n")
    chosen = [*arguments[:3], str(tmp_path / "story.txt"), *arguments[5:], "--speaker", "mia", "--language", "de"]
    chosen += ["--vocoder", "neural"]
    voxyard_command(*chosen)
    assert asked[-1] == (Path("run"), "Once upon a time.", tmp_path / "x.wav", None, "mia", "de", "neural")
    for texts in ([], ["--text", "Hello.", str(tmp_path / "story.txt")]):
        ended = voxyard_command(*arguments[:3], *arguments[5:], *texts)
        assert (ended.code, ended.out) == (2, "")
        assert "either --text TEXT, or FILE" in ended.err
        assert f"found {'both' if texts else 'neither'}" in ended.err
    ended = voxyard_command(*arguments[:5], "--out", str(tmp_path / "x.mp3"))
    assert (ended.code, ended.out) == (2, "")
    assert "x.mp3: found .mp3, expected a WAV file (.wav)" in ended.err
    ended = voxyard_command(*chosen[:3], str(tmp_path / "nowhere.txt"), *chosen[4:])
    assert (ended.code, "nowhere.txt" in ended.err) == (2, True)


def test_a_file_in_place_of_the_data_directory_is_told_before_a_model_is_loaded(
    voxyard_command: Command, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("")
    for name in ("file", "file/data"):
        ended = voxyard_command("serve", "--engine", "espeak", "--port", "0", "--data-dir", str(tmp_path / name))
        assert (ended.code, ended.out) == (2, "")
        assert f"--data-dir {tmp_path / name}: {tmp_path / 'file'} is a file, expected a folder" in ended.err


@pytest.mark.parametrize("option", ["--out", "--mel"])
@pytest.mark.parametrize("name", ["/proc/x", "file/x", "."])
def test_a_file_that_cannot_be_written_is_told_before_the_work(
    voxyard_command: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, option: str, name: str
) -> None:
    monkeypatch.setattr(voxyard.trainer.api, "synthesize", lambda *_, **__: pytest.fail("it began"))
    (tmp_path / "file").write_text("")
    options = {"--out": str(tmp_path / "x.wav"), option: str(tmp_path / name)}
    ended = voxyard_command(
        "synthesize", "--checkpoint", "run", "--text", "Hello.", *(word for pair in options.items() for word in pair)
    )
    assert ended.code == 2
    assert f"{option} {tmp_path / name} cannot be written: " in ended.err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file"]


def test_looking_whether_a_file_can_be_written_leaves_it_as_it_was(
    voxyard_command: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Where the work then fails."""

    def fail(*_: object, **__: object) -> None:
        raise TrainerError("no such checkpoint")

    monkeypatch.setattr(voxyard.trainer.api, "synthesize", fail)
    (tmp_path / "old.wav").write_text("sound")
    arguments = ["synthesize", "--checkpoint", "run", "--text", "Hello.", "--out", str(tmp_path / "old.wav")]
    ended = voxyard_command(*arguments, "--mel", str(tmp_path / "new.npy"))
    assert (ended.code, ended.err) == (2, "voxyard synthesize: no such checkpoint\n")
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("old.wav", "sound")]
    ended = voxyard_command(*arguments, "--mel", str(tmp_path / "a/b/new.npy"))
    assert (ended.code, [path.name for path in tmp_path.iterdir()]) == (2, ["old.wav"])


def test_a_corpus_is_made_checked_and_written_as_shards(voxyard_command: Command, tmp_path: Path) -> None:
    """Results on standard output, and nothing else anywhere where no one watches, but how texts are read."""
    corpus, shards = str(tmp_path / "corpus"), str(tmp_path / "shards")
    made = voxyard_command("corpus", "demo", corpus, "--clips", "2", "--seed", "1")
    assert (made.code, made.err) == (0, "")
    assert f"{corpus}: 2 clips" in made.out
    checked = voxyard_command("corpus", "check", corpus, "--json")
    assert checked.code == 0
    assert json.loads(checked.out)["clips"] == 2
    written = voxyard_command("corpus", "prepare", corpus, shards, "--sample-rate", "16000")
    assert (written.code, written.err.count("\n")) == (0, 1)
    assert written.err.startswith("Text: phonemes of en-us by espeak-ng; ")
    assert f"{shards}: 2 clips" in written.out
    assert (tmp_path / "shards").is_dir()


def test_a_corpus_in_another_script_does_not_pass_the_check_as_letters(
    voxyard_command: Command, tmp_path: Path
) -> None:
    """Exit code 1; as phonemes of its language it passes, by flag or by variable."""
    corpus = tmp_path / "corpus"
    voxyard_command("corpus", "demo", str(corpus), "--clips", "2")
    metadata = corpus / "metadata.csv"
    ids = [line.partition("|")[0] for line in metadata.read_text().splitlines()]
    metadata.write_text("".join(f"{name}|Старый моряк.|Старый моряк.\n" for name in ids))
    checked = voxyard_command("corpus", "check", str(corpus), "--json")
    assert checked.code == 1
    assert json.loads(checked.out)["texts"]["dropped_share"] > 0.9
    refused = voxyard_command("corpus", "prepare", str(corpus), str(tmp_path / "shards"))
    assert refused.code == 2
    assert "CYRILLIC SMALL LETTER" in refused.err
    phonemes = ["--text-units", "phonemes", "--language", "ru"]
    assert voxyard_command("corpus", "check", str(corpus), *phonemes).code == 0
    assert voxyard_command("corpus", "prepare", str(corpus), str(tmp_path / "shards"), *phonemes).code == 0


def test_a_corpus_with_broken_clips_does_not_pass_the_check(voxyard_command: Command, tmp_path: Path) -> None:
    """Exit code 1, with the clip named."""
    voxyard_command("corpus", "demo", str(tmp_path / "corpus"), "--clips", "2")
    clip = min((tmp_path / "corpus/wavs").iterdir())
    clip.write_bytes(clip.read_bytes()[:50])
    checked = voxyard_command("corpus", "check", str(tmp_path / "corpus"))
    assert checked.code == 1
    assert clip.stem in checked.out


@pytest.mark.parametrize(
    "arguments", [["check", "/nowhere"], ["prepare", "/nowhere", "/tmp/x"], ["demo", "/proc/none/at/all"]]
)
def test_a_corpus_that_is_not_there_is_a_sentence(voxyard_command: Command, arguments: list[str]) -> None:
    ended = voxyard_command("corpus", *arguments)
    assert (ended.code, ended.out) == (2, "")
    assert ended.err.startswith(f"voxyard corpus {arguments[0]}: ")


def test_warnings_are_marked_and_notes_are_plain(voxyard_command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    import logging

    def train(config: TrainConfig) -> FakeReport:
        log = logging.getLogger("voxyard.trainer.loop")
        log.warning("the disk is nearly full")
        log.info("Model training starting now")
        log.debug("only when asked")
        logging.getLogger("somebody.else").info("noise")
        return FakeReport()

    monkeypatch.setattr(voxyard.trainer.api, "train", train)
    lines = ["WARNING: the disk is nearly full", "Model training starting now"]
    assert voxyard_command("train").err.splitlines() == lines
    assert "only when asked" in voxyard_command("-v", "train").err
