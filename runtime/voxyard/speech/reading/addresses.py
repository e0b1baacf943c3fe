"""Addresses, names of files, handles, hashtags and marks of Markdown, which no other rule may take apart."""

from __future__ import annotations

import html
import re
from collections.abc import Callable

from voxyard.speech.reading.languages import Language
from voxyard.speech.reading.number_words import cardinal
from voxyard.speech.reading.tables import Signs, table

Words = Callable[[re.Match[str]], str | None]

_DOMAINS = "com|org|net|edu|gov|info|io|dev|app|ai|co|eu|de|ch|fr|es|it|pt|br|nl|pl|ru|jp|cn|uk|ca|au|mx|tv"
_TAIL = r"(?<![.,;:!?)\]}>'\"»”’。、，）」])"
URL = rf"(?:https?|ftp)://(?:www\.)?[^\s<>\"“”«»]+{_TAIL}|(?<![A-Za-z0-9_.-])www\.[^\s<>\"“”«»]+{_TAIL}"
_BARE = rf"(?<![\w@./-])[A-Za-z0-9][\w-]+(?:\.[\w-]+)*\.(?:{_DOMAINS})(?![\w.-]*\w)(?:/[^\s<>\"“”«»]*{_TAIL})?"
_BARE += r"|(?<![\w@./-])[A-Z][A-Z0-9-]+\.(?:COM|ORG|EDU|GOV|UK)(?![\w.-]*\w)"
_FILE = (
    r"(?<![\w@./\\-])[A-Za-z0-9][\w-]*(?:\.[\w-]+)*\.(?:txt|pdf|docx?|xlsx?|pptx?|csv|json|ya?ml|toml|xml|html?|css|md|py|"
    r"js|ts|sh|exe|zip|gz|jpe?g|png|gif|svg|mp3|mp4|wav|epub|log|conf|ini)(?![\w@/-]|\.\w)|(?<![\w.])localhost:\d{2,5}(?!\w)"
)
_MAIL = r"(?<![A-Za-z0-9_.+-])(?:mailto:)?[A-Za-z0-9_.+-]+@[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)+(?<![.-])"
_OTHER = r"(?<!\S)(?!@\s?[$£€\d])(?=\S*(?:[\\@]|://))\S+"  # a path, or what is no address


_CHAT: list[tuple[re.Pattern[str], Words]] = [  # <:water_drop:879080584675213393>, <@879080584675213393>, :heart_eyes:
    (re.compile(r"<a?:(\w{2,32}):\d{15,21}>"), lambda found: found[1].replace("_", " ").strip()),
    (re.compile(r"[^\S\n]?<(?:@[!&]?|#)\d{15,21}>"), lambda _: ""),
    (re.compile(r"(?<![\w:/]):([a-z]+(?:_[a-z]+)+):(?![\w:])"), lambda found: found[1].replace("_", " ")),
]


def patterns(code: str, language: Language) -> list[tuple[re.Pattern[str], Words]]:
    """URLs, e-mail addresses, handles and hashtags, which no other rule may take apart."""
    signs = table(code).signs

    def spoken(found: re.Match[str]) -> str | None:
        return _address(found[0], signs, language) if signs.at else None

    def handle(found: re.Match[str]) -> str | None:
        return f"{signs.at} {found[1]}" if signs.at else None

    def entity(found: re.Match[str]) -> str | None:
        sign = html.unescape(found[0])
        if sign == found[0]:
            return None
        apart = found.string[found.start() - 1 : found.start()].isspace() and sign == "&"
        return signs.operators.get("&", sign) if apart else sign.replace("\N{NO-BREAK SPACE}", " ")

    def hashtag(found: re.Match[str]) -> str | None:
        return f"{signs.hashtag} {found[1]}" if signs.hashtag else None

    return [
        *_CHAT,
        (re.compile(r"&(?:[A-Za-z]{2,8}|#\d{2,6}|#[xX][0-9A-Fa-f]{2,5});"), entity),
        (re.compile(r"(?:(?<=[^\W\d_]{3})|(?<=[.,;:!?\"”’)]))\[(?:\d{1,3}|note \d{1,3}|[a-z])\](?![\w(])"), _silent),
        (re.compile(r"\[([^][\n]{1,200})\]\((?:https?://|/|#)[^)\s]*\)"), lambda found: found[1]),  # of Markdown
        (re.compile(r"^[^\S\n]{0,3}#{1,6}[^\S\n]+(?=\S)", re.MULTILINE), _silent),
        (re.compile(r"(?<=\w )#{2,6} (?=\w)"), _silent),
        (re.compile(r"(?<=[a-z]{3} )@(?= [a-z])" if code == "en" else "(?!)"), lambda _: signs.at),  # goods @ a price
        (
            re.compile(
                r"(?<![\w*`~_])(?:\*{1,3}|__|~~|`{1,3})(?=[^\s*`~_])|"
                r"(?<=[^\s*`~_(])(?:\*{1,3}|__|~~|`{1,3})(?![\w*`~_])(?!-?\d)"
            ),
            _silent,
        ),
        (_OPENING_UNDERSCORE, _silent),
        (re.compile(r"(?<=[^\W_]|[.,!?])_(?![\w_])"), _closing_underscore),
        (re.compile(URL), spoken),
        (re.compile(_MAIL), spoken),
        (re.compile(_BARE), spoken),
        (re.compile(_FILE), spoken),
        (re.compile(r"(?<![\w@./-])@([A-Za-z0-9_]*[A-Za-z][A-Za-z0-9_]*)(?![\w@])"), handle),
        (re.compile(r"(?<![\w#&/])#([^\W\d]\w*)"), hashtag),
        (re.compile(_OTHER), lambda _: None),
    ]


_OPENING_UNDERSCORE = re.compile(r"(?<![\w*`~])_(?=[^\W_][^_\n]{0,200}(?<=\S)_(?!\w))")


def _closing_underscore(found: re.Match[str]) -> str | None:
    """The second mark of what Markdown emphasizes; an underscore without the first stays."""
    start = found.string.rfind("\n", 0, found.start()) + 1
    before = found.string.rfind("_", max(start, found.start() - 202), found.start())
    return "" if before >= 0 and _OPENING_UNDERSCORE.match(found.string, before) else None


def _address(text: str, signs: Signs, language: Language) -> str:
    """Parts of an address with the names of its signs; its scheme and `www` are left out."""
    text = re.sub(r"^(?:(?:https?|ftp)://|mailto:)?(?:www\.)?", "", text).rstrip("/")
    names = {".": signs.dot, "@": signs.at, "/": signs.slash, "-": signs.dash, "_": signs.underscore, ":": signs.colon}
    names |= signs.operators
    pieces = re.findall(r"\d+|[^\W\d_]+|.", text)
    said = []
    for piece in pieces:
        if piece.isdecimal():
            said.append(
                " ".join(cardinal(digit, language) for digit in piece) if len(piece) > 2 else cardinal(piece, language)
            )
        elif piece.isalpha():
            said.append(piece)
        else:
            said.append(names.get(piece, "") or "")
    return " ".join(filter(None, said))


def _silent(_: re.Match[str]) -> str:
    return ""
