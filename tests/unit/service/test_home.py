"""The page in several languages: which one a browser gets, and that each has every string."""

from __future__ import annotations

import re

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient

from voxyard.service.routes.home import PAGE, chosen, home, languages, page

_BRACES = re.compile(r"\{\w+\}")


@pytest.mark.parametrize(
    ("header", "code"),
    [
        ("", "en"),
        ("fa-IR,fa;q=0.9,en;q=0.8", "fa"),
        ("en-GB,en;q=0.9,fa;q=0.8", "en"),
        ("de-DE,de;q=0.9,fa;q=0.4", "fa"),
        ("de", "en"),
        ("fa;q=0, de", "en"),
        ("fa;q=0.3,en;q=0.7", "en"),
        ("no such header; q=x", "en"),
        ("*", "en"),
    ],
)
def test_a_browser_gets_the_language_that_it_likes_best(header: str, code: str) -> None:
    assert chosen(header) == code


@pytest.mark.parametrize(
    ("path", "header", "code", "direction"),
    [
        ("/", "en", "en", "ltr"),
        ("/", "fa", "fa", "rtl"),
        ("/?lang=fa", "en", "fa", "rtl"),
        ("/?lang=en", "fa", "en", "ltr"),
        ("/?lang=xx", "fa", "fa", "rtl"),
    ],
)
def test_a_link_goes_before_the_browsers_language(path: str, header: str, code: str, direction: str) -> None:
    app = FastAPI()
    app.add_api_route("/", home)
    answer = TestClient(app).get(path, headers={"Accept-Language": header})
    assert f'<html lang="{code}" dir="{direction}">' in answer.text
    assert (answer.headers["Content-Language"], answer.headers["Vary"]) == (code, "Accept-Language")


def test_english_is_first_and_each_language_has_every_string() -> None:
    english, *others = languages().items()
    assert english[0] == "en"
    assert "fa" in dict(others)
    for code, strings in others:
        assert list(strings) == list(english[1]), code
        for key, words in strings.items():
            assert words.strip(), key
            assert set(_BRACES.findall(words)) == set(_BRACES.findall(english[1][key])), key


def test_every_string_is_used_and_every_one_that_is_asked_for_is_there() -> None:
    scripts = "\n".join(file.read_text(encoding="utf-8") for file in sorted(PAGE.glob("*.js")))
    template = (PAGE / "index.html").read_text(encoding="utf-8")
    asked = set(re.findall(r"\{\{([\w.]+)\}\}", template)) - {"strings", "other_languages"}
    keys = set(languages()["en"])
    assert asked <= keys
    said = {each for each in keys if f'"{each}"' in scripts}
    built = {key for key in keys if key.startswith(("time.", "chunk.", "service."))}
    assert keys - asked - said - built == {"language.name"}
    named = set(re.findall(r'say\(\s*"([^"]+)"', scripts))
    assert named <= keys


@pytest.mark.parametrize("code", ["en", "fa"])
def test_no_place_of_the_page_is_left_empty(code: str) -> None:
    assert "{{" not in page(code)
    others = [each for each in languages() if each != code]
    assert all(f'href="?lang={each}"' in page(code) for each in others)
