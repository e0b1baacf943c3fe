"""Docstrings are statements: they say what a thing is, and do not open as a question."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[3]
FOLDERS = ("runtime", "scripts", "grafana", "tests")
QUESTION = re.compile(r"(What|Who|Whom|Whose|How|Where|Whether|Which|Why|When)\b")
LIMIT = 0.03


def docstrings(file: Path) -> Iterator[tuple[int, str]]:
    """Line and text of each docstring of a Python file."""
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            text = ast.get_docstring(node)
            if text is not None:
                yield node.body[0].lineno, text


def questions(root: Path) -> tuple[list[str], int]:
    """Docstrings under `root` that open with a question word, a line each, and the number of all docstrings."""
    found, count = [], 0
    for folder in FOLDERS:
        for file in sorted((root / folder).rglob("*.py")):
            for line, text in docstrings(file):
                count += 1
                if QUESTION.match(text):
                    found.append(f"{file.relative_to(root)}:{line}: {text.splitlines()[0]}")
    return found, count


def test_docstrings_are_statements_not_questions() -> None:
    found, count = questions(ROOT)
    assert count > 1000, f"found {count} docstrings under {', '.join(FOLDERS)}, expected all of the repository"
    assert len(found) < LIMIT * count, (
        f"{len(found)} of {count} docstrings open with a question word, expected under {LIMIT:.0%}; "
        "say what the thing is ('True where …', 'Reason why …'):\n" + "\n".join(found)
    )


def test_a_question_is_found_and_a_statement_is_not(tmp_path: Path) -> None:
    for folder in FOLDERS:
        (tmp_path / folder).mkdir()
    (tmp_path / "runtime" / "one.py").write_text(
        '"""A rate limiter."""\n\n\nclass Bucket:\n    """What is left."""\n\n    def whole(self) -> bool:\n'
        '        """Whether it is full."""\n        return True\n',
        encoding="utf-8",
    )
    found, count = questions(tmp_path)
    assert (found, count) == (["runtime/one.py:5: What is left.", "runtime/one.py:8: Whether it is full."], 3)
