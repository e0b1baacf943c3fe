"""Figures that are no quantity: phone and card numbers digit by digit, versions and IP addresses part by part."""

from __future__ import annotations

import re
from collections.abc import Callable

from voxyard.speech.reading import russian
from voxyard.speech.reading.languages import Language
from voxyard.speech.reading.number_words import cardinal, year
from voxyard.speech.reading.patterns import BLANKS, ELSEWHERE, MOST_GROUPS
from voxyard.speech.reading.tables import table

Words = Callable[[re.Match[str]], str | None]

_B = f"[{BLANKS}]"
_START = rf"(?<![\w.,:/+^-])(?<!(?<!\d)\d{_B})(?<!(?<!\d)\d\d{_B})(?<!(?<!\d)\d\d\d{_B})"
_WIDE_START = r"(?<![A-Za-z0-9_.,:/+^-])"
_FEWEST, _MOST = 6, 19  # digits of a phone or card number
_MOST_PARTS = 8  # of a version
_OCTET = r"(?:25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d)"


def patterns(language: Language) -> list[tuple[re.Pattern[str], Words]]:
    """Patterns that amounts and units must not take apart, with their words."""

    def spoken(found: re.Match[str]) -> str | None:
        return by_digits(found[0], language)

    start = r"(?<![\w.,:])" if language.spaced else r"(?<![A-Za-z0-9_.,:])"
    number = r"\d{1,3}(?:\.\d{3})+(?!\.?\w)"
    grouped = f"(?!{number})" if "." in language.groups else ""
    edge = r"(?<![\w-])" if language.spaced else r"(?<![A-Za-z0-9_-])"
    after = "A-Za-z0-9_" if not language.spaced or language.locale == "ko" else r"\w"  # 02-123-4567로
    end = f"(?![{after}-])"
    found: list[tuple[re.Pattern[str], Words]] = [
        *_serials(language),
        (
            re.compile(rf"{start}{_OCTET}(?:\.{_OCTET}){{3}}(?::(?P<port>\d{{2,5}}))?(?![\w.,]\d)(?![A-Za-z0-9_])"),
            lambda match: _octets(match[0], match["port"], language),
        ),
        (
            re.compile(
                rf"(?:{start}|(?<=[vV]er\.)){grouped}(?:(?P<letter>[vV])?\d+(?:\.\d+){{2,}}(?:\.x)?|v\d+\.\d+|\d+(?:\.\d+)+\.x)(?![A-Za-z0-9_])"
            ),
            lambda match: _version(match, language),
        ),
        (  # port 443/tcp
            re.compile(rf"{edge}(?P<n>\d{{1,5}})/(?P<of>(?i:tcp|udp))(?![{after}])"),
            lambda match: (
                ELSEWHERE
                if language.locale in ("en", "de", "nl")
                else f"{cardinal(match['n'], language)} {match['of'].upper()}"
            ),
        ),
        (re.compile(rf"{edge}0x(?P<hex>[\dA-Fa-f]{{2,16}})(?![{after}])"), lambda match: _hexadecimal(match, language)),
        (re.compile(rf"{edge}\+\d[\d\s()/-]{{4,}}\d{end}"), spoken),
        # (555) 123-4567, (030) 1234567
        (
            re.compile(
                rf"{start.replace(':', '')}(?:\d{{1,3}} ?)?\((?:\d{{2,5}}\) ?(?:\d{{2,5}}(?:[ -]\d{{2,}})+|\d{{5,}})|"
                rf"0\d{{1,4}}\) ?\d{{3,4}}){end}"
            ),
            spoken,
        ),
        (
            re.compile(rf"(?<![\w.,:/+-])(?<!\d{_B})0\d+(?:{_B}\d{{3,}})+(?:-\d{{1,6}}(?![\d-]))?(?!\d)"),
            spoken,
        ),  # 0800 123 456
        (  # 030/1234567, but Lei nº 05/2012
            re.compile(rf"(?<![\w.,:/+-]){_no_law(language)}0\d{{1,4}}/\d{{3,}}(?:[ -]?\d{{2,}})*(?![\w/])"),
            spoken,
        ),
        # 555 123 4567, 91 123 45 67: figures of which some look like a group of thousands
        (
            re.compile(
                rf"{_START}(?!\d{{1,3}}(?:{_B}\d{{3}}){{1,{MOST_GROUPS}}}(?!\d|{_B}\d))"
                rf"\d{{1,3}}(?:{_B}\d{{1,3}}(?!\d))*{_B}\d{{3}}(?!\d)(?:{_B}\d+)*"
            ),
            spoken,
        ),
        (re.compile(r"(?<![\w.,])\d{4}(?:[ -]\d{4}){3}(?!\d|[ -]\d)"), spoken),  # of a card
        (re.compile(rf"{edge}\d+(?:-\d+){{2,}}{end}"), spoken),  # 1-800-555-0199
        (re.compile(rf"{edge}(?:\d{{3}}-\d{{4}}|0\d{{1,4}}-\d{{5,8}}){end}"), spoken),  # 555-1234, 010-12345678
        (
            re.compile(r"(?:(?<!\*)\*{2,}|(?<!•)•{2,}|(?<![xX])[xX]{4,})(?P<dash>[-– ]?)(?P<digits>\d{2,6})(?!\w)"),
            lambda match: _masked(match, language),
        ),
    ]
    found.append((_EXTENSION, lambda match: one_by_one(match[0].lstrip("-"), language)))
    found.insert(0, (_ISSN, lambda match: _identity(re.sub("-?X$", "-X", match[0]), language)))
    found.insert(0, (_IBAN, lambda match: _iban(match, language)))
    if language.locale == "ja":
        found.insert(0, (re.compile(r"〒\s?(?=\d)"), lambda _: "郵便番号"))
        found.insert(0, (_AVERAGE, lambda match: average(match, "割分厘", "", language)))
        found.insert(0, (_TEN_MINUTES, lambda _: "じゅっぷん"))
        found.insert(0, (_JAPANESE_LOT, lambda match: _lot(match, language)))
        found.insert(0, (_JAPANESE_BLOCK, lambda match: "の".join(cardinal(n, language) for n in match[0].split("-"))))
    if language.locale == "ru":
        found.insert(0, (re.compile(russian.PHONE), lambda match: _by_groups(match[0], language)))
    if language.locale == "de":
        found.insert(0, (_POSTCODE, lambda match: one_by_one(match[0], language)))
        found.insert(0, (re.compile(r"(?<![\w.,:/+-])0\d{1,5} ?/ ?\d[\d -]{2,14}\d(?![\w/])"), spoken))
    if language.locale.startswith("pt"):  # CPF 123.456.789-09, CNPJ 12.345.678/0001-95
        kinds = r"\d{3}\.\d{3}\.\d{3}-\d\d|\d\d\.\d{3}\.\d{3}/\d{4}-\d\d|\d\d\.\d{3}\.\d{3}-[\dX]"
        kinds += r"|\d{7}-\d\d\.\d{4}\.\d\.\d\d\.\d{4}"  # of a case at court
        identity = rf"(?<![\w.,/-])(?:{kinds})(?![\w/-])"
        found.insert(0, (re.compile(identity), lambda match: _identity(match[0], language)))
    if language.locale == "en":
        found += [
            (_EMERGENCY, lambda match: re.sub(r"\d{3,6}", lambda each: one_by_one(each[0], language), match[0])),
            (re.compile(r"(?<![\w-])1-8(?P<n>\d\d)-(?=[A-Z]{3,})"), lambda match: _free_call(match["n"], language)),
        ]
    if language.locale in ("en", "de", "nl"):  # Nr. 4471902, #4471902
        long = r"(?:(?<=[Nn]r\. )|(?<=[Nn]o\. )|(?<=[Nn]ummer )|(?<=[Nn]umber ))\d{7,14}(?![\w-]|[.,]\d)"
        found.append((re.compile(long), lambda match: one_by_one(match[0], language)))
    if language.locale in ("de", "nl"):  # factuurnr. 2024-0187
        code = re.compile(
            r"(?:(?<=nr\. )|(?<=Nr\. )|(?<=[Nn]ummer ))(?P<year>(?:19|20)\d\d)[-/](?P<n>\d{3,8})(?![\w-])"
        )
        found.append((code, lambda match: f"{year(int(match['year']), language)}, {one_by_one(match['n'], language)}"))
    if table(language.locale).codes:  # PIN 1234, 邮编100084
        after_word = re.compile(
            rf"(?P<word>{_one_of_codes(language)}{_JOINT})(?P<digits>\d{{3,12}}(?:[ -]\d{{3,8}}(?!\w))*)"
            rf"(?![\w.,]\d)(?![{after}])"
        )
        if not language.spaced:
            after_word = re.compile(
                rf"(?P<word>{_one_of_codes(language)}(?:\s?[:：]\s?|[是为は]|))"
                r"(?P<digits>\d{3,12}(?:-\d{3,8})*|\d{1,4}-\d{2,8})(?![\d.,]\d|[份个件张笔枚個])"
            )
        found.append(
            (after_word, lambda match: match["word"] + one_by_one(match["digits"].replace(" ", "-"), language))
        )
    found += _papers(language)
    if of_shape := _OF_SHAPE.get(language.locale):
        found.append((of_shape, lambda match: one_by_one(match[0], language)))
    return found


def _no_law(language: Language) -> str:
    return r"(?!0\d\d?/(?:19|20)\d\d(?![\d -]))" if language.locale[:2] in _SLASHES else ""


_JAPANESE_BLOCK = re.compile(  # 千代田区1-1, 渋谷2-3-4
    r"(?:(?<=[区町村市丁目台条通])[1-9]\d{0,3}-[1-9]\d{0,3}(?:-[1-9]\d{0,3})?|"
    r"(?<=[一-龥])(?<!話)(?<!号)[1-9]\d?-[1-9]\d?-[1-9]\d{0,2})(?![\d-])"
)
_AVERAGE = re.compile(r"(?:(?<=[打勝塁]率)|(?<=[打勝塁]率は)|(?<=[打勝塁]率が))[0０]?\.(\d)(\d)(\d)(?!\d)")  # 打率.312
_TEN_MINUTES = re.compile(
    r"(?<![\d.,:：/時/〜~～-])10 ?分(?![のか]?[一二三四五六七八九十\d])(?!の[一-九\d])"
)  # 十分 is "enough" too
_JAPANESE_LOT = re.compile(r"(?<=[一-龥])(?<![戦軍勝敗表])[1-9]\d{0,3}-[1-9]\d{0,3}(?![\d-])")  # 千代田区千代田1-1
_IN_A_TOWN = re.compile(r"[都道府県市区町村][一-龥ァ-ヶ]{1,6}$")


def _lot(found: re.Match[str], language: Language) -> str:
    before = found.string[max(0, found.start() - 10) : found.start()]
    if _IN_A_TOWN.search(before) is None:
        return ELSEWHERE
    return "の".join(cardinal(n, language) for n in found[0].split("-"))


def average(found: re.Match[str], parts: str, joint: str, language: Language) -> str:
    """Tenths, hundredths and thousandths of a batter by their names: 삼할 일푼 이리."""
    said = zip(found.groups(), parts, strict=True)
    return joint.join(cardinal(digit, language) + part for digit, part in said if digit != "0")


_EXTENSION = re.compile(  # ext. 4417, Tel. -4417, tst. 4417
    r"(?=[\d-])(?:(?<=\b[Ee]xt\. )|(?<=\bextension )|(?<=\bTel\. )(?=-)|(?<=\bDW )|(?<=\btst\. )|(?<=\btoestel ))"
    r"-?\d{3,5}(?![\w-]|[.,]\d)"
)
_IBAN = re.compile(r"(?<![\w-])(?P<country>[A-Z]{2})(?P<digits>\d\d(?: ?\d{4}){3,7}(?: ?\d{1,4})?)(?![\w-])")
_ISSN = re.compile(r"(?<=ISSN[ :])(?:(?<=:) ?)?\d{4}-\d{3}[\dX](?![\w-])|(?<=ISBN )\d(?:-\d+){2}-[\dX](?![\w-])")
_ECLI = re.compile(r"(?<![\w-])ECLI:(?P<names>[A-Z]{2}:[A-Z]{1,7}):(?P<year>\d{4}):(?P<n>\d{1,6})(?![\w:-])")
_FILE = re.compile(r"(?<![\w/.-])(?P<letters>[A-Z]{2,4})/(?P<parts>\d{3,6}(?:/\d{2,4})?)(?![\w/-]|[.,]\d)")  # AB/1234
_POSTCODE = re.compile(  # after a house number, or before the name of a town
    r"(?:(?<=\d, )|(?<=\d[a-z], )|(?<=\bD-)|(?<=\d\n)|(?<=\d, D-))\d{5}(?=\s[A-ZÄÖÜ][a-zäöüß]+)|"
    r"(?<![\w.,/-])\d{5}(?=\s(?:Berlin|Hamburg|München|Köln|Frankfurt|Stuttgart|Düsseldorf|Leipzig|Dortmund|Essen|"
    r"Bremen|Dresden|Hannover|Nürnberg|Duisburg|Bochum|Wuppertal|Bielefeld|Bonn|Münster|Mannheim|Karlsruhe|Augsburg|"
    r"Wiesbaden|Mainz|Kiel|Aachen|Halle|Magdeburg|Freiburg|Erfurt|Rostock|Kassel|Potsdam|Heidelberg|Würzburg|Ulm|"
    r"Regensburg|Göttingen|Jena|Weimar|Lübeck|Oldenburg|Osnabrück|Darmstadt|Saarbrücken)\b)|"
    r"(?<![\w.,/-])\d{5}(?=\s(?:St\.|Sankt|Bad)\s[A-ZÄÖÜ])|"  # 63101 St. Louis, 9000 St. Gallen
    r"(?<![\w.,/-])\d{4}(?=\sSt\.\s(?:Gallen|Pölten|Moritz|Gilgen|Johann|Veit|Anton|Wolfgang|Georgen?|Peter|Paul|Valentin|"
    r"Ulrich|Leonhard|Andrä|Michael|Martin|Florian|Jakob|Stefan|Marein|Ruprecht|Barbara|Radegund|Oswald|Nikolaus|Ursen)\b)"
)


def _serials(language: Language) -> list[tuple[re.Pattern[str], Words]]:
    """GB/T 15109-2021, ABC00143OX000123DH: a standard or a serial number beside words without blanks."""
    if language.locale not in ("zh", "ja"):
        return []
    standard = r"(?<![A-Za-z0-9/])(?P<name>(?:GB|JGJ|DB|QB|YY|HJ|ISO|IEC)(?:/[TZ])?\s?)(?P<n>\d{3,5}(?:\.\d{1,2})?)"
    standard += r"(?:[-–—](?P<year>(?:19|20)?\d\d))?(?![A-Za-z0-9-]|\.\d)"
    serial = r"(?<![A-Za-z0-9_./@-])(?=[A-Z0-9]{8,}(?![A-Za-z0-9_./@-]))(?=[A-Z]+\d+[A-Z]|\d+[A-Z]+\d)[A-Z0-9]+"

    def of_standard(found: re.Match[str]) -> str:
        figures = language.point.join(one_by_one(each, language) for each in found["n"].split("."))
        return found["name"] + figures + (f"杠{one_by_one(found['year'], language)}" if found["year"] else "")

    def of_serial(found: re.Match[str]) -> str:
        return re.sub(r"\d+", lambda each: one_by_one(each[0], language), found[0])

    standards = [(re.compile(standard), of_standard)] if language.locale == "zh" else []
    return [*standards, (re.compile(serial), of_serial)]


def papers(language: Language) -> list[tuple[re.Pattern[str], Words, str]]:
    """Patterns of a judgement's name and of a file's number, their words and what they need."""
    if language.locale not in ("en", "de", "nl"):
        return []
    return [
        (_ECLI, lambda match: _judgement(match, language), "ECLI:"),
        (_FILE, lambda match: _file(match, language), "/"),
    ]


def _judgement(found: re.Match[str], language: Language) -> str:
    """ECLI:NL:HR:2019:1234, the letters, the year and the number."""
    names = found["names"].replace(":", language.comma)
    return language.comma.join(("ECLI", names, year(int(found["year"]), language), cardinal(found["n"], language)))


def _file(found: re.Match[str], language: Language) -> str:
    slash = f" {table(language.locale[:2]).signs.slash} "
    return slash.join((found["letters"], *(_of_name(part, language) for part in found["parts"].split("/"))))


def _iban(found: re.Match[str], language: Language) -> str:
    """The country's letters, and the digits in their groups."""
    comma = language.comma if language.spaced else "、"
    groups = [one_by_one(group, language) for group in found["digits"].split()]
    return f"{found['country']}{comma}" + comma.join(groups)


_EMERGENCY = re.compile(  # elsewhere 911 is a number, a year, a car
    r"(?i:\b(?:call|dial|ring|phone|text)(?:s|ed|ing)?|\brang) (?:911|999|112|111|101|988|411|000)"
    r"(?:(?:, | or |, or )(?:911|999|112|111|101|988|000))*(?![\w/-]|[.,]\d)"
    r"|(?i:\btext) [A-Z]{2,12} to \d{5,6}(?![\w.,]\d)"
    r"|(?<![\w.,/-])911(?= (?:calls?|callers?|operators?|dispatch\w*|emergency)\b)"
)
_SLASHES = {"fr": "sur", "es": "barra", "it": "barra", "pt": "barra", "pl": "łamane przez"}
_LONGEST = 6  # digits of a paper's number that is said as one
_PAPER = re.compile(  # n° F-2026-118, n.º FT 2026/381, nr 118/03/2026, REsp n. 1.234/SP
    r"(?<![\w.])(?P<no>[Nn](?:[°º]|\.º?|r\.?)|[Nn]úm\.)\s(?P<series>[A-Z]{1,4})?(?P<gap>(?(series)[ /-]?))"
    r"(?P<n>\d{7,20}(?!\d|[/.-]\d)|\d{1,6}(?:[/.-]\d{1,6}){0,3})(?P<of>/[A-Z]{2})?(?![\w/-]|[.,]\d)"
)


def _papers(language: Language) -> list[tuple[re.Pattern[str], Words]]:
    """Numbers of papers, after their sign or their name."""
    found: list[tuple[re.Pattern[str], Words]] = []
    if language.locale[:2] in _SLASHES:
        found.append((_PAPER, lambda match: _paper(match, language)))
    if table(language.locale).records:
        found.append((_RECORD, lambda match: _record(match, language)))
    return found


def _paper(found: re.Match[str], language: Language) -> str:
    """The number of a paper that has a series, a court or more than two parts, after the sign of a number."""
    code, number = language.locale[:2], found["n"]
    if not (
        (number.isdigit() and len(number) > _LONGEST)
        or found["series"]
        or found["of"]
        or re.search(r"[/-].*[/.-]|/0", number)
    ):
        return ELSEWHERE
    joints = {"/": f" {_SLASHES[code]} ", "-": language.comma, ".": language.comma, " ": " ", "": " "}
    if code != "fr":  # 1.234/SP
        number = re.sub(r"(?<![\d.])(\d{1,3})\.(\d{3})(?![\d.])", r"\1\2", number)

    def part(each: re.Match[str]) -> str:
        digits = each[0]
        if digits in joints:
            return joints[digits]
        if digits[0] == "0" or len(digits) > _LONGEST or (len(digits) > 4 and code != "fr"):
            return one_by_one(digits, language)
        return cardinal(digits, language)

    no = table(code).abbreviations.get(f"{found['no'].lower()}#")
    if no is None:
        return ELSEWHERE
    said = re.sub(r"\d+|[/.-]", part, number)
    series = found["series"] + joints[found["gap"]] if found["series"] else ""
    return f"{no.capitalize() if found['no'][0] == 'N' else no} {series}{said}" + (
        f"{joints['/']}{found['of'][1:]}" if found["of"] else ""
    )


_RECORD = re.compile(
    r"(?<![\w.,:/#-])(?:(?P<year>(?:1[349]|20)\d\d)-(?P<n>\d{3}|0\d{1,5}|\d{5,6})|\d{1,6}-\d{4,6})"
    r"(?![A-Za-z0-9_/-]|[.,]\d)"
)
_NUMBERED = r"(?:\s(?:[nN][°º]|[nN][oº]?\.º?|numéro|número|numero|núm\.))?[\s:#]{1,2}"


def _record(found: re.Match[str], language: Language) -> str:
    """The number of a paper, after its name: facture 2024-117, pedido n.º 45-7781."""
    names = "|".join(map(re.escape, table(language.locale).records))
    before = found.string[max(0, found.start() - 40) : found.start()]
    if re.search(rf"(?<!\w)(?:{names}){_NUMBERED}$", before, re.IGNORECASE) is None:
        return ELSEWHERE
    parts = found[0].split("-")
    first = year(int(parts[0]), language) if found["year"] else _of_name(parts[0], language)
    return first + language.comma + _of_name(parts[1], language)


def _of_name(digits: str, language: Language) -> str:
    return cardinal(digits, language) if len(digits) < 4 and digits[0] != "0" else one_by_one(digits, language)


_JOINT = r"(?:\s?[:#]\s?|[는은이가]?\s(?:(?:is|ist|lautet|es|est|è|é|number|Nummer|numéro|número|numero)\s)?)"
_SHORT_PHONES = re.compile(  # of the police, of a hotline
    r"(?<![\d.])(?:(?:(?<=[打拨])|(?<=[打拨]\d{3}、)|(?<=[打拨]\d{3}、\d{3}、)|(?<=[打拨]\d{3}[或和]))(?:1[12]\d|1[02]\d{3}|9[56]\d{3})|"
    r"(?:11[0479]|12[02]|1[02]\d{3}|9[56]\d{3})(?=报警|火警|急救|热线|电话|客服|平台|官网|投诉))(?![\d.])"
)
_OF_SHAPE = {
    "zh": _SHORT_PHONES,
    "pt": re.compile(r"(?<![\w.,/–-])\d{4,5}-\d{3}(?![\w/–-]|[.,]\d)"),  # Lisboa (1100-148), 01310-100
}


def _identity(text: str, language: Language) -> str:
    """Digits in their groups; a slash is said."""
    slash = f" {table(language.locale[:2]).signs.slash} "
    parts = [re.sub(r"[.]", "-", part).removesuffix("-X") for part in text.split("/")]
    end = ", X" if text.endswith("X") else ""
    return slash.join(one_by_one(part, language) for part in parts) + end


def _free_call(digits: str, language: Language) -> str:
    """1-800-FLOWERS."""
    return "one eight hundred, " if digits == "00" else f"one, {one_by_one('8' + digits, language)}, "


def _one_of_codes(language: Language) -> str:
    return ("(?<!\\w)" if language.spaced else "") + f"(?:{'|'.join(code_words(language.locale))})"


def code_words(code: str) -> list[str]:
    """Patterns of the language's words for a code: 인증번호, 인증 번호."""
    words = map(re.escape, table(code).codes)
    return [re.sub(r"(?<=.)번호$", r"\\s?번호", each) for each in words]


def one_by_one(text: str, language: Language) -> str:
    """Digits one by one, with a comma for each hyphen between them."""
    blank, comma = (" ", language.comma) if language.spaced else ("", "、")
    return comma.join(blank.join(_digit(digit, language) for digit in group) for group in text.split("-"))


def _digit(digit: str, language: Language) -> str:
    return "공" if language.locale == "ko" and digit == "0" else cardinal(digit, language)


def by_digits(text: str, language: Language) -> str | None:
    """Digits one by one, with a comma between their groups; None where they are too few or too many to be a number.

    A number in a table or of a quantity is no phone number: its figures stay as they are.
    """
    groups = re.findall(r"\d+", text)
    count = sum(map(len, groups))
    if not _FEWEST <= count <= _MOST or (
        count < 7 and not text.startswith("0") and "-" not in text and "(" not in text
    ):
        return None
    signs = table(language.locale).signs
    plus = signs.operators.get("+") if language.locale == "zh" else signs.plus or "+"  # 加八六, not 正
    blank = " " if language.spaced else ""
    if language.locale == "fr" and re.fullmatch(r"0\d(?:[ .-]\d\d){4}", text):
        return language.comma.join(cardinal(group, language) for group in groups)
    said = [blank.join(_digit(digit, language) for digit in group) for group in groups]
    return (f"{plus}{blank}" if text.lstrip("(").startswith("+") else "") + (
        "、" if not language.spaced else language.comma
    ).join(said)


def _by_groups(text: str, language: Language) -> str:
    """A Russian phone number: восемь, четыреста девяносто пять, сто двадцать три, сорок пять."""
    country, area, *rest = re.fullmatch(r"(\d)(\d{3,5}?)(\d{1,3})(\d\d)(\d\d)", re.sub(r"\D", "", text)).groups()  # type: ignore[union-attr]
    plus = f"{table(language.locale).signs.plus} " if text.startswith("+") else ""
    return plus + language.comma.join(cardinal(group, language) for group in (country, area, *rest))


def _octets(text: str, port: str | None, language: Language) -> str | None:
    dot, colon = table(language.locale).signs.dot, table(language.locale).signs.colon
    blank = " " if language.spaced else ""
    parts = (
        blank.join(cardinal(digit, language) for digit in part) for part in text.split(":", maxsplit=1)[0].split(".")
    )
    if not dot or (port and not colon):
        return None
    after = f"{blank}{colon}{blank}{one_by_one(port, language)}" if port else ""
    return f"{blank}{dot}{blank}".join(parts) + after


def _hexadecimal(found: re.Match[str], language: Language) -> str:
    """0x8007F."""
    digits = (_digit(each, language) if each.isdigit() else each.upper() for each in found["hex"])
    return " ".join([_digit("0", language), "x", *digits])


def _version(found: re.Match[str], language: Language) -> str | None:
    point = table(language.locale).signs.point
    blank = " " if language.spaced else ""
    if not point or re.fullmatch(r"\d{1,3}(?:\.\d{3})+", found[0]):
        return None  # of groups: a number as other languages write it
    parts = found[0].lstrip("vV").split(".")
    if len(parts) > _MOST_PARTS:
        return None
    letter = f"{found[0][0]} " if found[0][0] in "vV" else ""
    return letter + f"{blank}{point}{blank}".join(part if part == "x" else cardinal(part, language) for part in parts)


def _masked(found: re.Match[str], language: Language) -> str:
    """The digits that are left of a masked number; crosses that are letters stay."""
    blank = " " if language.spaced else ""
    digits = blank.join(cardinal(digit, language) for digit in found["digits"])
    mask = found[0][: found.start("dash") - found.start()]
    return f"{mask} {digits}" if mask[0] in "xX" else digits
