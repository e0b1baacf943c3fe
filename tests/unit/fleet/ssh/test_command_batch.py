"""Command batches: run by a real shell, parsed one by one."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
from pathlib import Path

import pytest

from fleet.ssh.command_batch import (
    HOST_SCRIPT,
    Answer,
    Command,
    decoded,
    for_any_shell,
    marked,
    script,
    split,
    unmarked,
    verb,
)


def run(*commands: Command) -> dict[str, Answer]:
    text, marker = script(commands)
    done = subprocess.run(["sh", "-c", text], capture_output=True, text=True, input="not for you\n")
    return split(done.stdout, done.stderr, marker)


def test_each_answer_has_its_own_output_and_exit_code() -> None:
    answers = run(
        Command("a", "echo one; echo bad >&2"),
        Command("b", "printf two; exit 3"),
        Command("c", "true"),
        Command("d", "echo lost >&2; false"),
    )
    assert answers == {
        "a": Answer("one\n", "bad\n", 0),
        "b": Answer("two", "", 3),
        "c": Answer("", "", 0),
        "d": Answer("", "lost\n", 1),
    }


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        (b"\x1b[31mred\x1b[0m, \x1b[1;4mbold\x1b[m\n", "red, bold\n"),
        (b"a\x1b]0;title\x07b\x1b]8;;http://x\x1b\\c", "abc"),
        (b"\x1b[2J\x1b[Hgone\x1bc\x08\x00\x7f", "gone"),
        ("\x9b31mcell\x85 ä\t1\r\n".encode(), "31mcell ä\t1\r\n"),
        (b"\xff\x1b", "\ufffd"),
    ],
)
def test_what_a_host_says_changes_nothing_of_the_terminal(said: bytes, shown: str) -> None:
    assert decoded(said) == shown


def test_a_failing_command_does_not_end_the_batch() -> None:
    answers = run(Command("a", "exit 9"), Command("b", "no-such-program"), Command("c", "echo still here"))
    assert answers["b"].code == 127
    assert answers["c"].out == "still here\n"


# After basecamp/kamal#675, microsoft/WSL#8794.
@pytest.mark.parametrize("place", ["/usr/local/bin", "/opt/bin", "/usr/lib/wsl/lib", "/run/current-system/sw/bin"])
@pytest.mark.parametrize("before", ["/first:/usr/bin:/bin", "/usr/bin:/bin", "/first"])
def test_programs_are_found_where_a_login_without_a_terminal_does_not_look(place: str, before: str) -> None:
    for text in (script([Command("a", "echo $PATH")])[0], marked(Command("a", "echo $PATH"))[0]):
        done = subprocess.run(["/bin/sh", "-c", text], capture_output=True, text=True, env={"PATH": before})
        (path,) = [line for line in done.stdout.splitlines() if line.startswith("/")]
        assert path.startswith(f"{before}:"), "what the login finds comes first"
        assert {place, "/usr/bin", "/bin"} <= set(path.split(":"))


def test_a_command_finds_its_standard_input_empty() -> None:
    assert run(Command("a", "cat"))["a"] == Answer("", "", 0)


@pytest.mark.parametrize("state_dir", [None, "/srv/voxyard"])
def test_programs_of_a_host_speak_english_whatever_its_language_is(state_dir: str | None) -> None:
    """What they say is read: `docker: command not found`, `permission denied`."""
    command = Command("a", 'echo "$LC_ALL ${VOXYARD_STATE_DIR-}"')
    german = {**os.environ, "LC_ALL": "de_DE.UTF-8", "LANG": "de_DE.UTF-8"}
    for text, marker in (script([command], state_dir), marked(command, state_dir)):
        out = subprocess.run(["sh", "-c", text], capture_output=True, text=True, env=german).stdout
        assert f"C {state_dir or ''}\n" in out.replace(marker, "")


def test_a_command_that_hangs_is_ended_and_the_next_one_runs() -> None:
    answers = run(Command("a", "sleep 60", seconds=1), Command("b", "echo on"))
    assert answers["a"].message == "timed out"
    assert answers["b"].out == "on\n"


def test_what_a_login_shell_says_before_is_no_answer() -> None:
    text, marker = script([Command("a", "echo x")])
    done = subprocess.run(["sh", "-c", f"echo Welcome; echo motd >&2; {text}"], capture_output=True, text=True)
    assert split(done.stdout, done.stderr, marker) == {"a": Answer("x\n", "", 0)}
    text, marker = marked(Command("a", "cat; echo bad >&2; exit 3"))
    words = ["sh", "-c", f"echo Welcome; echo motd >&2; {text}"]
    done = subprocess.run(words, capture_output=True, text=True, input="x\n")
    assert unmarked(done.stdout, done.stderr, marker) == Answer("x\n", "bad\n", 3)


def test_a_command_whose_end_was_cut_off_has_no_answer() -> None:
    text, marker = script([Command("a", "echo x"), Command("b", "echo y")])
    out = subprocess.run(["sh", "-c", text], capture_output=True, text=True).stdout
    assert set(split(out[: out.index("y\n\n")], "", marker)) == {"a"}


@pytest.mark.parametrize("word", ["it's", 'a "b" $HOME `id`', "x; y", "*"])
def test_quotes_and_dollars_reach_the_command_as_they_are(word: str) -> None:
    assert run(Command("a", f"printf %s {shlex.quote(word)}"))["a"].out == word


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (Answer("out\n", "two\nlines\n", 1), "two lines"),
        (Answer("only out\n", "", 1), "only out"),
        (Answer("", "", 7), "exit code 7"),
    ],
)
def test_a_failure_is_reported_on_one_line(answer: Answer, said: str) -> None:
    assert answer.message == said


def test_the_host_script_travels_once_with_an_exchange_that_has_verbs() -> None:
    text, _ = script([Command("a", verb("lock_show")), Command("b", "true"), Command("c", verb("release_names"))])
    assert text.count("# -- audit log") == 1
    assert "voxyard_host" not in script([Command("b", "true")])[0]
    assert len(text) < 100_000 < 131_072  # one argument of a program on Linux


def test_a_verb_gets_its_arguments_as_they_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    name = """it's $HOME; `id` "x" * \\ -"""
    (tmp_path / ".voxyard/releases" / name).mkdir(parents=True)
    (tmp_path / ".voxyard/releases" / name / "a b").write_text("whole\n")
    assert run(Command("a", verb("release_file", name, "a b")))["a"] == Answer("whole\n", "", 0)


AS_THEY_ARE = ["it's", "wow!", 'a "b" $HOME `id` %s', r"a\b \\ \n \'", "two\nlines\n.", "Grüße", "-n", "*;{x}"]


@pytest.mark.parametrize("word", AS_THEY_ARE)
def test_a_script_is_one_line_that_every_login_shell_takes_as_it_is(word: str) -> None:
    """csh has no line break and no `!` within quotes; in those of fish a backslash hides a backslash or a quote."""
    text, marker = script([Command("a", f"printf '%s\\n' {shlex.quote(word)}"), Command("b", verb("lock_show"))])
    line = for_any_shell(text)
    assert re.fullmatch(r"/bin/sh -c '(?:[^'!\\\n]|\\(?![\\'\n!]))*'", line)
    assert line.isascii()
    assert len(line) < 131_072
    # In BusyBox's shell `sh` is a program of its own.
    done = subprocess.run(["bash", "-c", f"sh() {{ exit 9; }}; {line}"], capture_output=True, text=True)
    assert split(done.stdout, done.stderr, marker)["a"] == Answer(f"{word}\n")


@pytest.mark.parametrize("shell", ["dash", "bash"])
def test_the_host_script_is_posix_shell(shell: str) -> None:
    assert subprocess.run([shell, "-n", HOST_SCRIPT], check=False).returncode == 0
