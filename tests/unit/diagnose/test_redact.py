"""Redaction of secrets by name, by form and by value; and what is no secret and stays."""

from __future__ import annotations

import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from voxyard.diagnose.bundle.redact import REMOVED, Redactor, is_secret_name

SECRET = "q7Zk-plantedValue_91"


@pytest.mark.parametrize(
    "name",
    [
        "password", "db_password", "DB_PASSWORD", "passwordFile", "passwd", "PGPASSWORD", "MY_PWD", "passphrase",
        "secret",         "client-secret", "clientSecret", "api_key", "apiKey", "API-KEY", "APIKEY", "x-api-key",
        "OPENAI_API_KEY",         "aws_secret_access_key", "AWS_ACCESS_KEY_ID", "private_key", "ssh_key", "token",
        "HF_TOKEN", "accessToken", "tokens",         "hftoken", "auth", "Authorization", "http_auth", "cookie",
        "Set-Cookie", "session_key", "credentials",         "dsn", "SENTRY_DSN", "connection_string",
        "slack_webhook_url", "webhook", "jwt", "signature", "sas", "--api-token",
    ],
)  # fmt: skip
def test_names_of_secrets(name: str) -> None:
    assert is_secret_name(name)


@pytest.mark.parametrize(
    "name",
    [
        "", "PWD", "OLDPWD", "batch_size", "keep_checkpoints", "checkpoint_dir", "token_lengths", "token_count",
        "monkey",         "key", "keyboard", "author", "bypass", "path", "compass", "secretary_name_",
        "training.seed", "text_units", "public_key",
    ],
)  # fmt: skip
def test_names_that_are_none(name: str) -> None:
    assert not is_secret_name(name)


TEXTS = [
    f"password: {SECRET}",
    f"password = '{SECRET} and a blank'",
    f"password: correct horse {SECRET} staple",
    f'{{"apiKey": "{SECRET}", "seed": 3}}',
    f'{{"log": "{{\\"token\\": \\"{SECRET}\\"}}"}}',
    f"HF_TOKEN={SECRET} voxyard train",
    f"voxyard train --api-token {SECRET} --batch-size 8",
    f"voxyard train --api-token={SECRET}",
    f"GET /v1 Authorization: Bearer {SECRET}",
    f"authorization: Basic dXNlcjp{SECRET.replace('-', '').replace('_', '')}",
    f"{{'Authorization': 'Token {SECRET}'}}",
    f"sent header bearer {SECRET}",
    "sent header Basic dXNlcjpwbGFudGVkVmFsdWU5MQ==",
    f"X-Api-Key: {SECRET}",
    f"Cookie: session={SECRET}; other=1",
    f"https://user:{SECRET}@example.org/path",
    f"https://{SECRET}@example.org/path",
    f"postgres://user:{SECRET}/with/slashes@db.example.org:5432/x",
    f"https://user:p@{SECRET}@example.org/",
    f"https://example.org/data?token={SECRET}",
    f"https://example.org/data?a=1&X-Amz-Signature={SECRET}&b=2",
    f"https://example.org/data?{SECRET}",
    f"https://example.org/#access_token={SECRET}",
    "https://hooks.example.org/services/T00/B00/" + SECRET.replace("-", ""),
    f"http_proxy=user:{SECRET}@proxy.example.org:3128",
    f'"https:\\/\\/user:{SECRET}@example.org"',
    f"tokens: ['{SECRET}', 'another']",
    f"-----BEGIN OPENSSH PRIVATE KEY-----\n{SECRET}\n-----END OPENSSH PRIVATE KEY-----",
    f"-----BEGIN RSA PRIVATE KEY-----\n{SECRET}\nand the file ends",
]


@pytest.mark.parametrize("text", TEXTS)
def test_a_secret_does_not_stay_in_a_text(text: str) -> None:
    found = Redactor().text(text)
    for piece in ("plantedValue", "dXNlcjp", "staple"):
        assert piece not in found
    assert REMOVED in found


@pytest.mark.parametrize(
    "key",
    [
        "hf_AbCdEfGhIjKlMnOpQrStUv", "sk-proj-AbCdEfGhIjKlMnOpQr", "ghp_AbCdEfGhIjKlMnOpQrSt12",
        "glpat-AbCdEfGhIjKlMnOpQr",         "github_pat_11AAAAAAA0abcdefghij", "AKIAIOSFODNN7EXAMPLE",
        "AIzaSyA-1234567890abcdefghijklmnopqrstu",         "xoxb-123456789012-abcdefghijkl",
        "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.abcdefgh", "nvapi-AbCdEfGhIjKlMnOpQr",
        "vox_AbCdEfGhIjKlMnOpQrSt", "SG.abcdefghijklmn.opqrstuvwxyz",
    ],
)  # fmt: skip
def test_keys_are_known_by_their_look(key: str) -> None:
    assert Redactor().text(f"using {key}, then on") == f"using {REMOVED}, then on"


@pytest.mark.parametrize(
    "text",
    [
        "step 10/100: 4.07 steps/s, loss 3.2, data wait 61.8%, ring 3, buffer 50/50",
        "32 clips make 2 batches of 8 an epoch; length buckets (frames × tokens): 192×40, 224×48",
        '{"tokens": 64, "batch": 8}',
        "tokens: [64, 128], frames: 3",
        "data: GPU 0 (NVIDIA A10, GPU-8f3a1c5e-1b2d-4c3e-9f0a-112233445566), 23028 MiB",
        "https://example.org/voxyard/docs.html",
        "voxyard train --data-gpu 0 --model-gpu 1 --train-data /data/corpus --seed 3",
        "the host vm-7.example.org:9100 answered",
        "git@example.org:voxyard/voxyard.git",
        "2026-11-21T16:13:20+0000 bound by train",
        "basic settings are kept",
        "",
    ],
)
def test_what_is_no_secret_stays_as_it_is(text: str) -> None:
    assert Redactor().text(text) == text


def test_what_is_around_a_secret_stays_readable() -> None:
    assert Redactor().text(f"seed=3 token={SECRET}") == f"seed=3 token={REMOVED}"
    assert (
        Redactor().text(f"https://u:{SECRET}@h.example.org/a?x=1") == f"https://{REMOVED}@h.example.org/a?x={REMOVED}"
    )
    assert json.loads(Redactor().text(f'{{"a": 1, "password": "{SECRET}"}}')) == {"a": 1, "password": REMOVED}


def test_data_is_redacted_by_name_at_every_depth() -> None:
    data = {
        "training": {"seed": 3, "api_key": SECRET},
        "store": {"credentials": {"user": "u", "where": [SECRET, 12345]}},
        "urls": [f"s3://u:{SECRET}@bucket/x", "plain"],
        "tokens": 64,
        "password": 123456,
        "secret": None,
        "auth": True,
    }
    found = Redactor().data(data)
    assert SECRET not in json.dumps(found)
    assert "123456" not in json.dumps(found)
    assert found["training"] == {"seed": 3, "api_key": REMOVED}
    assert found["urls"] == [f"s3://{REMOVED}@bucket/x", "plain"]
    assert (found["tokens"], found["secret"], found["auth"]) == (64, None, True)


def test_a_secret_that_was_learned_is_removed_wherever_it_stands() -> None:
    redactor = Redactor()
    redactor.learn_from({"env": {"DB_PASSWORD": "p w/ö&x"}, "proxy": "http://me:hush%21now@proxy:1"})
    said = "said p w/ö&x, p%20w%2F%C3%B6%26x, p+w%2F%C3%B6%26x, p w/\\u00f6&x, hush%21now and hush!now"
    assert redactor.text(said) == f"said {', '.join([REMOVED] * 4)}, {REMOVED} and {REMOVED}"
    assert redactor.data({"free text": ["p w/ö&x"]}) == {"free text": [REMOVED]}


def test_the_lines_of_a_key_are_secrets_each() -> None:
    redactor = Redactor()
    redactor.learn_from({"PRIVATE_KEY": "first line of the key\nsecond line of the key"})
    assert redactor.text("log: second line of the key") == f"log: {REMOVED}"


def test_short_and_common_values_do_not_tear_up_other_texts() -> None:
    redactor = Redactor()
    redactor.learn_from({"auth": "none", "password": "abc", "token": "true", "MAX_TOKENS": "16384", "PWD": "/work/dir"})
    assert redactor.text("abc none true 16384 /work/dir") == "abc none true 16384 /work/dir"


def test_a_secret_that_is_part_of_another_does_not_tear_it_up() -> None:
    """The longest goes first: otherwise the rest of it would stay readable."""
    redactor = Redactor()
    redactor.learn("hunter22", "hunter22-and-the-rest", "prefix-hunter22")
    assert redactor.text("a hunter22-and-the-rest b prefix-hunter22 c") == f"a {REMOVED} b {REMOVED} c"


def test_a_command_line_loses_the_values_of_secret_flags() -> None:
    shown = Redactor().arguments(["train", "--api-token", SECRET, f"--password={SECRET}", "--seed", "3", "--hf-token"])
    assert shown == ["train", "--api-token", REMOVED, f"--password={REMOVED}", "--seed", "3", "--hf-token"]


LETTERS = st.text("abcdefghijklmnopqrstuvwxyz0123456789", min_size=12, max_size=30)


@given(
    secret=LETTERS.filter(lambda text: any(map(str.isdigit, text))),
    name=st.sampled_from(["password", "API_KEY", "hf-token", "clientSecret"]),
    between=st.sampled_from([": ", "=", " = ", '": "', "': '", ":"]),
    before=st.text(alphabet=st.characters(exclude_categories=["Cs"]), max_size=30),
    after=st.sampled_from(["", "\n", '"', ", next", "&x=1", " }"]),
)
def test_no_named_secret_stays_whatever_is_around_it(
    secret: str, name: str, between: str, before: str, after: str
) -> None:
    assert secret not in Redactor().text(f"{before} {name}{between}{secret}{after}").replace(before, "")


@pytest.mark.slow
@pytest.mark.parametrize(
    "piece", ["x", "a:", "x-", "a.", "u:p@", "http://a@", '"', '\\"', "token:", "--token ", "basic "]
)
def test_a_long_line_takes_time_in_proportion_to_its_length(piece: str) -> None:
    """A log may have a line of a megabyte; an expression that backtracks over it would never end."""

    def seconds(characters: int) -> float:
        text, begin = piece * (characters // len(piece)), time.thread_time()
        Redactor().text(text)
        return time.thread_time() - begin

    tried = [(seconds(5_000), seconds(40_000)) for _ in range(3)]
    short, long = (min(each) for each in zip(*tried, strict=True))
    assert long < 24 * short  # it is 8 times as long; the square of that is 64
