"""Keeps secrets out of what leaves the machine: by the name of a key, by the pattern of a text, and by known values."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote, quote_plus, unquote

REMOVED = "[removed]"

_SHORTEST = 5
"""Characters from which on a known secret is looked for in other texts: a shorter one would tear up words."""

# A name is split into words; one of these makes it the name of a secret.
_SECRET_WORDS = frozenset(
    {
        "password", "passwords", "passwd", "passphrase", "passcode", "pwd", "pw", "pass", "secret", "secrets", "apikey",
        "credential", "credentials", "creds", "authorization", "authentication", "auth", "cookie", "cookies", "bearer",
        "dsn", "webhook", "webhooks", "jwt", "pat", "sas", "signature", "sig", "netrc", "privatekey", "accesskey",
        "token", "tokens", "otp", "totp", "mnemonic",
    }
)  # fmt: skip
_MEASURES = frozenset({"length", "lengths", "count", "counts", "size", "sizes", "rate", "limit", "units", "seconds"})
_NO_SECRETS = frozenset({"PWD", "OLDPWD"})  # of a shell: its directories
_KEY_OF = frozenset(
    {
        "access", "account", "api", "app", "auth", "client", "deploy", "encryption", "host", "license", "master",
        "private", "project", "secret", "server", "service", "session", "shared", "signing", "ssh", "ssl", "storage",
        "tls", "write",
    }
)  # fmt: skip
_CONNECTION = (("connection", "string"), ("conn", "str"), ("connect", "string"))
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")

_URL = re.compile(
    r"""(?<![A-Za-z0-9+.-])(?P<scheme>[A-Za-z][A-Za-z0-9+.-]{0,30})(?P<slashes>:(?:\\?/){2})(?P<rest>[^\s"'<>`]+)"""
)
_USERINFO = re.compile(r"""(?<![\w/])[^\s/@:"'<>=]{1,200}:[^\s/@"'<>]{1,200}@(?=[\w.\[-])""")
_LONG = re.compile(r"[A-Za-z0-9_:.=~+%-]{16,}")
_SCHEME = re.compile(r"(?i)\b(bearer|apikey)(\s+)[A-Za-z0-9._~+/=-]{6,}")
_BASIC = re.compile(r"\b([Bb]asic|BASIC|[Dd]igest|[Nn]egotiate)(\s+)(?=[A-Za-z0-9+/=_-]*[0-9=+/])[A-Za-z0-9+/=_-]{8,}")
_NAME = re.compile(r"""(?<!\w)([A-Za-z_][\w.-]{0,200})\\?["']?\s*(?:=>|[:=])[^\S\r\n]*""")
_VALUE = re.compile(r"""\\"(?:(?!\\").)*\\"|"(?:\\.|[^"\\\r\n])*"|'(?:\\.|[^'\\\r\n])*'|\[[^\]\r\n]*\]|[^\r\n]*""")
_FLAG = re.compile(
    r"""(?<!\S)(?P<name>--?[A-Za-z][\w.-]*)(?P<between>\s+)(?P<value>"[^"\r\n]*"|'[^'\r\n]*'|[^\s-]\S*)"""
)
_FORMATS = (
    re.compile(r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY[A-Z ]{0,20}-----.*?(?:-----END [A-Z0-9 ]+-----|\Z)", re.DOTALL),
    re.compile(r"\beyJ[\w-]{8,}\.[\w-]{8,}(?:\.[\w-]*)?"),
    re.compile(r"\b(?:AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{16}\b"),
    re.compile(r"\bAIza[\w-]{30,}"),
    re.compile(r"\bya29\.[\w-]{10,}"),
    re.compile(r"\b(?:hf|api_org)_[A-Za-z0-9]{16,}"),
    re.compile(r"\b(?:gh[opsur]|github_pat)_\w{16,}"),
    re.compile(r"\b(?:glpat|glptt|gldt|glrt|nvapi|sk|pk|rk|npm|pypi|dop|dckr_pat|xox[a-z]|xapp|vox)[-_][\w-]{16,}"),
    re.compile(r"\bSG\.[\w-]{10,}\.[\w-]{10,}"),
)  # fmt: skip


def is_secret_name(name: str) -> bool:
    """True where a key, a variable or a flag of this name holds a secret."""
    words = [word.lower() for word in _WORD.findall(name)]
    if not words or words[-1] in _MEASURES or name in _NO_SECRETS:
        return False
    if _SECRET_WORDS & set(words) or any(word.endswith(("password", "apikey", "secret", "token")) for word in words):
        return True
    pairs = set(itertools.pairwise(words))
    return any(first in _KEY_OF and second in ("key", "keys") for first, second in pairs) or bool(
        pairs & set(_CONNECTION)
    )


@dataclass
class Redactor:
    """Removes secrets from texts and data.

    It learns the values of secrets that it meets by name, and removes them wherever else they stand: let it learn from
    everything first, then redact.
    """

    _known: set[str] = field(default_factory=set)

    def learn(self, *values: object) -> None:
        """Registers secrets, also in the form that they have inside a URL or a JSON text."""
        for value in values:
            text = str(value).strip()
            if len(text) >= _SHORTEST and text.lower() not in ("false", "true", "none", "null"):
                written = {text, unquote(text), quote(text, safe=""), quote_plus(text), json.dumps(text)[1:-1]}
                self._known |= {each for each in written if len(each) >= _SHORTEST}
                self._known |= {line.strip() for line in text.splitlines() if len(line.strip()) >= 3 * _SHORTEST}

    def learn_from(self, data: object, name: str = "") -> None:
        """Learns the values under names of secrets, and the passwords of URLs, anywhere in `data`."""
        if isinstance(data, Mapping):
            for key, value in data.items():
                self.learn_from(value, str(key) if not is_secret_name(name) else name)
        elif isinstance(data, (list, tuple, set)):
            for value in data:
                self.learn_from(value, name)
        elif data is not None and not isinstance(data, bool):
            if is_secret_name(name) and not _is_count(name, str(data)):
                self.learn(data)
            for password in _passwords(str(data)):
                self.learn(password)

    def text(self, text: str) -> str:
        """`text` with its secrets removed."""
        for secret in sorted(self._known, key=len, reverse=True):
            text = text.replace(secret, REMOVED)
        for pattern in _FORMATS:
            text = pattern.sub(REMOVED, text)
        text = _URL.sub(_without_url_secrets, text)
        text = _USERINFO.sub(f"{REMOVED}@", text)
        text = _SCHEME.sub(rf"\1\2{REMOVED}", text)
        text = _BASIC.sub(rf"\1\2{REMOVED}", text)
        text = _FLAG.sub(_without_flag_value, text)
        return _in_pairs(text)

    def data(self, data: Any, name: str = "") -> Any:
        """`data` (mappings, sequences, scalars) with its secrets removed: by name, and by the pattern of its texts."""
        secret = is_secret_name(name)
        if isinstance(data, Mapping):
            inner = name if secret else None
            return {self.text(str(key)): self.data(value, inner or str(key)) for key, value in data.items()}
        if isinstance(data, (list, tuple, set)):
            return [self.data(value, name) for value in data]
        if data is None or isinstance(data, bool):
            return data
        if secret and not _is_count(name, str(data)):
            return REMOVED if str(data) else data
        return data if isinstance(data, (int, float)) else self.text(str(data))

    def arguments(self, arguments: Sequence[str]) -> list[str]:
        """A command line with the values of secret flags removed, whether `--token X` or `--token=X`."""
        shown, secret = [], False
        for argument in arguments:
            name, equals, value = argument.partition("=")
            flag = argument.startswith("-")
            if secret and not flag:
                shown.append(REMOVED)
            elif flag and equals and value and is_secret_name(name):
                shown.append(f"{name}={REMOVED}")
            else:
                shown.append(self.text(argument))
            secret = flag and not equals and is_secret_name(name)
        return shown


def _passwords(text: str) -> list[str]:
    found = []
    for match in _URL.finditer(text):
        user, at, _ = match["rest"].rpartition("@")
        if at:
            found.append(user.partition(":")[2] or user)
    return found


def _without_url_secrets(match: re.Match[str]) -> str:
    """A URL without user, password, values in its query or fragment, and parts of its path that look random."""
    rest = match["rest"]
    _, at, place = rest.rpartition("@")
    place, mark, query = _cut(place)
    host, *segments = place.split("/")
    path = "/".join([host, *(_LONG.sub(_unless_a_word, segment) for segment in segments)])
    told = re.sub(r"([^&;=?#]*=)?[^&;=?#]+", lambda part: f"{part[1] or ''}{REMOVED}", query)
    return f"{match['scheme']}{match['slashes']}{REMOVED + '@' if at else ''}{path}{mark}{told}"


def _unless_a_word(match: re.Match[str]) -> str:
    letters, digits = any(map(str.isalpha, match[0])), any(map(str.isdigit, match[0]))
    return REMOVED if letters and digits else match[0]


def _cut(place: str) -> tuple[str, str, str]:
    """A URL's host and path, the mark that ends them, and what follows it."""
    end = min((position for position in (place.find("?"), place.find("#")) if position >= 0), default=len(place))
    return place[:end], place[end : end + 1], place[end + 1 :]


def _without_flag_value(match: re.Match[str]) -> str:
    return f"{match['name']}{match['between']}{REMOVED}" if is_secret_name(match["name"]) else match[0]


def _in_pairs(text: str) -> str:
    """Removes the values of `name: value` and `name=value`, in quotes or bare, where the name is a secret's."""
    parts, position = [], 0
    for match in _NAME.finditer(text):
        if match.start() < position or not is_secret_name(match[1]):
            continue
        value = _VALUE.match(text, match.end())
        if value is None or _is_count(match[1], value[0]):
            continue
        parts += [text[position : match.end()], _removed(value[0])]
        position = value.end()
    return "".join(parts) + text[position:]


def _is_count(name: str, value: str) -> bool:
    """`tokens: 64` counts words; a secret is no number, or has a singular name."""
    words = _WORD.findall(name)
    counts = bool(words) and words[-1].lower() == "tokens"
    return counts and re.match(r"\[?\s*[0-9][0-9.,\s]*\]?(?=[\s,;)}\]]|$)", value) is not None


def _removed(value: str) -> str:
    """Placeholder for a value: quotes are kept, so that a document stays readable."""
    if not value.strip():
        return value
    for mark in ('\\"', '"', "'"):
        if value.startswith(mark) and value.endswith(mark) and len(value) > len(mark):
            return f"{mark}{REMOVED}{mark}"
    return REMOVED
