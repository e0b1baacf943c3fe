"""Two numbers with a sign between them: 2-3 weeks, 1939–45, a score 6-4, a ratio 3:1, n° 78-17, Boeing 737-800."""

from __future__ import annotations

import re
from collections.abc import Callable

from voxyard.speech.reading.languages import Language
from voxyard.speech.reading.number_words import (
    around_range,
    before_range,
    before_word,
    cardinal,
    decimal,
    in_case,
    is_year,
    whole_number,
)
from voxyard.speech.reading.patterns import BLANKS, ELSEWHERE, NEXT_WORD, UNREAD, bare_range, guard, number_of
from voxyard.speech.reading.tables import table

Reading = tuple[re.Pattern[str], Callable[[re.Match[str]], str | None]]

_YEAR = r"((?:1[1-9]|20)\d\d)"


def patterns(language: Language) -> list[Reading]:
    """Patterns of two numbers with their words."""
    return [*(_between_figures(language) if language.to else ()), *_ratios(language)]


def _between_figures(language: Language) -> list[Reading]:
    """Two numbers with a dash between them: 3–5, 2-3 weeks, 1914 – 1918, which is no subtraction, and 1939–45."""
    blank = " " if language.spaced else ""
    dash = "–|-" if language.spaced else "–|-|〜|~|～"

    def of_years(match: re.Match[str]) -> str:
        return around_range(match, language)[1] or language.to

    def between(match: re.Match[str]) -> str | None:
        word = NEXT_WORD.match(match.string, match.end())
        said = [whole_number(match[n], language, word and word[1]) for n in (1, 2)]
        start, joint = ("", of_years(match)) if is_year(match[1]) else around_range(match, language)
        return None if None in said else start + f"{blank}{joint}{blank * bool(joint)}".join(filter(None, said))

    def years(match: re.Match[str]) -> str | None:
        first, last = (whole_number(match[n], language, None) for n in (1, 2))
        return f"{first}{blank}{of_years(match)}{blank}{last}" if match[1] < match[2] else None

    def rising(match: re.Match[str]) -> str | None:
        if _is_score(match, language):
            return _pair(match, language)
        return between(match) if int(match[1]) < int(match[2]) or _is_cut(match) else _pair(match, language)

    def grouped(match: re.Match[str]) -> str | None:
        word = NEXT_WORD.match(match.string, match.end())
        start = before_range(match, language, word[1] if word else "")
        whole, part = number_of(match)
        said = before_word(whole, word[1], language) if word and not part else None
        return None if start is None else start + (said or decimal(whole, part, language))

    def short_years(match: re.Match[str]) -> str | None:
        first, last = match[1], match[2]
        if int(last) <= int(first[2:]):
            return None
        to = f"{blank}{of_years(match)}{blank}"
        zero = "oh " if language.locale == "en" and last[0] == "0" else ""
        return f"{whole_number(first, language, None)}{to}{zero}{cardinal(str(int(last)), language)}"

    start = guard(language)
    end = rf"(?![\w.,:/–-]*\d)(?!\w){UNREAD}" if language.spaced else rf"(?![.,:/–-]*\d)(?![A-Za-z]){UNREAD}"
    season = rf"{start}((?:1\d|20)\d\d)/(\d\d){end}"
    found: list[Reading] = [
        (re.compile(season), lambda match: f"{whole_number(match[1], language, None)} {cardinal(match[2], language)}"),
        (re.compile(rf"{start}((?:1\d|20)\d\d)[–-]['’]?(\d\d){end}"), short_years),
        (re.compile(rf"{start}{_YEAR}(?:–|-| – ){_YEAR}{end}"), years),
        (re.compile(rf"{start}([1-9]\d?|0)–([1-9]\d?|0){end}"), rising),
        (re.compile(rf"{start}(\d{{1,6}})–(\d{{1,6}}){end}"), between),
        (re.compile(rf"{start}([1-9]\d{{0,2}}|0)-([1-9]\d{{0,2}}|0){end}"), rising),
        (
            re.compile(rf"{start}([1-9]\d{{0,2}}|0) - ([1-9]\d{{0,2}}|0){end}"),  # won 3 - 1
            lambda match: (
                _pair(match, language) if _is_score(match, language) or _is_between_teams(match) else ELSEWHERE
            ),
        ),
    ]
    if not language.spaced:
        found.append((re.compile(rf"{start}(\d{{1,6}})(?:{dash})(\d{{1,6}}){end}"), between))
    else:  # 1,000–1,500, 1,5–2
        mark = f"[.,{BLANKS}]"
        either = rf"(?=\d+{mark}\d|\d+(?: – |–|-)\d+{mark}\d)"
        both = bare_range(language).replace(")?(?P<number>", ")(?P<number>", 1)
        found.append((re.compile(f"{guard(language)}{either}{both}{end}"), grouped))
    return [*_numbered(language, start, end), *found]


def _numbered(language: Language, start: str, end: str) -> list[Reading]:
    """Two figures that are no range: n° 78-17, art. L. 121-1, Boeing 737-800."""
    if not language.spaced:
        return []
    found: list[Reading] = [  # an aircraft
        (
            re.compile(rf"{start}(7[0-8]7)-([1-9]0?0?0?)(?P<variant>ER|LR|SP|F)?(?P<many>s)?{end}"),
            lambda match: _aircraft(match, language),
        )
    ]
    if language.locale == "en":
        alone = r"(?P<n>(?<=\bBoeing )7[0-8]7|7[0-8]7(?=s?\s"
        alone += r"(?:MAX|Max|Dreamliner|jets?|jetliners?|airliners?|aircraft|planes?)\b))(?P<many>s)?(?![\w-]|[.,]\d)"
        found.append((re.compile(start + alone), lambda match: _family(match, language)))
    if language.locale == "fr":
        before = r"(?<=\b[LRD]\. )|(?<=\b[LRD] )|(?<=\b[LRD]\.)|(?<=\b[LRD])|(?<=\b[Aa]rticle )|(?<=\b[Aa]rt\. )"
        before += r"|(?<=-\d à )|(?<=-\d\d à )|(?<=\b[Aa]rticles )(?=\d+-\d+ à \d+-\d)"
        code = rf"(?:{before})(\d{{1,4}}(?:-\d{{1,3}}){{1,2}}){end}"
        dash = f" {table('fr').signs.dash} "
        found.append((re.compile(code), lambda match: dash.join(cardinal(n, language) for n in match[1].split("-"))))
    if law := _law(language):
        slash = f" {table(language.locale).signs.slash} "

        def parts(match: re.Match[str]) -> str:
            joint = slash if match[2] == "/" else " "
            first = whole_number(match[1], language, None) or match[1]
            return f"{first}{joint}{cardinal(match[3], language)}"

        found.append((re.compile(rf"{law}{start}(\d{{1,4}})(-)(\d{{1,6}}){end}"), parts))
        if language.locale != "de":
            found.append((re.compile(rf"{law}{start}((?:19|20)\d\d)(/)(\d{{1,6}}){end}"), parts))
    return found


def _law(language: Language) -> str:
    """Looks behind a number of two parts for the abbreviation that numbers it; "" where the language has none."""
    shorts = [
        key[:-1]
        for key in table(language.locale).abbreviations
        if key in ("n°#", "nº#", "n.º#", "n.#", "n.°#", "Nr.#", "No.#", "no.#", "nr.#", "ref.#", "réf.#", "rif.#")
    ]
    return "(?:" + "|".join(rf"(?<=(?<!\w){re.escape(each)} )" for each in shorts) + ")" if shorts else ""


def _aircraft(found: re.Match[str], language: Language) -> str:
    first = found[1] if language.locale != "en" else None
    head = cardinal(first, language) if first else f"seven {cardinal(found[1][1:], language)}"
    variant = f" {found['variant']}" if found["variant"] else ""
    return f"{head} {cardinal(found[2], language)}{variant}{'s' * bool(found['many'])}"


def _family(found: re.Match[str], language: Language) -> str:
    """A Boeing 737, two Boeing 777s."""
    said = f"seven {cardinal(found['n'][1:], language)}"
    return re.sub("y(?=s$)", "ie", f"{said}s") if found["many"] else said


_PAGES = re.compile(r"(?<!\w)(?:pp?\.|[Pp]ages?|[Pp]ágs?\.|páginas|pagine|S\.|Seiten|blz\.)\s?$")


def _is_cut(found: re.Match[str]) -> bool:
    """True for pp. 145-67, whose last number has its last figures alone."""
    before = found.string[max(0, found.start() - 10) : found.start()]
    return len(found[2]) < len(found[1]) and _PAGES.search(before) is not None


_NEAR_SCORE = 60  # characters
_AFTER_SCORE = re.compile(  # no noun, which would be counted
    r"\s*(?:$|[.,;:!?)\n])|\s(?:in|at|to|against|over|on|after|when|and|but|gegen|im|nach|bei|und|contre|en|à|et|contra|"
    r"ante|y|e|em|ao|contro|al|a|van|tegen|z|ze|w)\b|(?:で|に|だった)|\s(?:باخت|برد|مساوی|شکست)"
)


def _is_score(found: re.Match[str], language: Language) -> bool:
    """True where a word of a game stands in the same sentence before two numbers, or other scores beside them."""
    before = found.string[max(0, found.start() - _NEAR_SCORE) : found.start()]
    won = {"zh": _WON, "ja": _WON_IN_JAPANESE, "fa": _WON_IN_PERSIAN}.get(language.locale)
    if won is not None and won.match(found.string, found.end()):
        return True
    if _HALF_TIME.search(before) and found.string[found.end() : found.end() + 1] == ")":
        return True
    if _beside_scores(before, found.string[found.end() : found.end() + _NEAR_SCORE]):
        return True
    after = found.string[found.end() : found.end() + 3]
    if language.locale == "nl" and re.search(r"\b[Dd]e $", before) and re.match(r",\s[a-z]", after):
        return True
    return _AFTER_SCORE.match(found.string, found.end()) is not None and near_score(before, language.locale)


_HALF_TIME = re.compile(r"(?<![\w.-])\d\d?[–-]\d\d? \($")  # 2-2 (0-1)
_WON = re.compile("(?:的?比分)?(?:追|落后|领先|扳|逆转|获胜|取胜|战胜|击败|不敌|惜败|战平|大胜|完胜|落败|负于|输给)")
_WON_IN_JAPANESE = re.compile("で(?:敗|負|勝|破|下し|引き分け|終え|終わ)")
_WON_IN_PERSIAN = re.compile(r"\s(?:(?:[^\W\d_]+\s){1,3}را\s)?(?:باخت|برد|مساوی|شکست|پیروز)")
_ROW_JOINT = r"(?:\(\d{1,2}\))?(?:[,،、，;/]\s?|\s(?:and|und|et|y|e|и|و)\s|\s)"
_BEFORE_PAIR = re.compile(rf"(?:(?<![A-Za-z0-9_.:/-])\d{{1,3}}[-–:]\d{{1,3}}{_ROW_JOINT})+$")
_AFTER_PAIR = re.compile(rf"(?:{_ROW_JOINT}\d{{1,3}}[-–:]\d{{1,3}}(?![A-Za-z0-9_:/-]))+")


def _is_between_teams(found: re.Match[str]) -> bool:
    """True for the score of PSG 3 - 0 OM."""
    before, after = found.string[max(0, found.start() - 30) : found.start()], found.string[found.end() :][:3]
    goals = max(int(found[1]), int(found[2])) < 20
    return goals and re.search(r"(?:^|[\s:])[A-ZÀ-Ý][\w.-]+\s$", before) is not None and after[1:2].isupper()


def _beside_scores(before: str, after: str) -> bool:
    """True for 3-6 in the row 6-4, 3-6: a pair whose first number is the larger one is no range."""
    rows = (_BEFORE_PAIR.search(before), _AFTER_PAIR.match(after))
    pairs = (pair for row in rows if row for pair in re.findall(r"(\d+)[-–:](\d+)", row[0]))
    return any(int(first) > int(second) for first, second in pairs)


def beside_years(language: Language) -> list[Reading]:
    """(EU) 2016/679, Q3/2024: a year beside a number."""
    if language.locale not in ("en", "de", "nl"):
        return []
    slash = table(language.locale).signs.slash
    law = r"(?=\d)(?:(?<=\bE[UGC]\) )|(?<=\bE[UGC]\) Nr\. )|(?<=\bE[UGC]\) nr\. )|"
    law += r"(?<=Drs\. )|(?<=\bNJ )|(?<=Richtlinie )|(?<=Directive )|(?<=Richtlijn ))"
    law += r"(?P<a>\d{1,4})/(?P<b>\d{1,4})(?=/E[UGC]\b|(?![\w/]|[.,]\d))"
    quarter = re.compile(r"\bQ(?P<q>[1-4])\s?/\s?(?P<year>(?:20)?\d\d)(?![\w/]|[.,]\d)")

    def number(found: re.Match[str]) -> str:
        said = (whole_number(found[each], language, None) or found[each] for each in "ab")
        return f" {slash} ".join(said)

    def of_quarter(found: re.Match[str]) -> str:
        year = found["year"] if len(found["year"]) > 2 else f"20{found['year']}"
        return f"Q {cardinal(found['q'], language)} {whole_number(year, language, None)}"

    return [(re.compile(law), number), (quarter, of_quarter)]


_FORMULAS = r"[Ee]quations?|Gleichung(?:en)?|Formeln?|[Vv]ergelijking(?:en)?|[Ff]ormules?"


def bracketed(language: Language) -> list[Reading]:
    """Eqs. (4)–(6), Gl. (4): numbers in brackets after the word that numbers them; the brackets are silent."""
    if language.locale not in ("en", "de", "nl"):
        return []
    shorts = {"Gl.": "Gleichung", "Gln.": "Gleichungen"} if language.locale == "de" else {}  # Gl. 4 is a platform too
    shorts |= {key[:-1]: words for key, words in table(language.locale).abbreviations.items() if key[-1] == "#"}
    names = "|".join(re.escape(each) for each in sorted(shorts, key=len, reverse=True))
    joint = r"\s?[–-]\s?|,\s|,?\s(?:and|to|or|und|bis|oder|en|tot|of)\s"
    pattern = rf"(?<!\w)(?P<name>{names}|{_FORMULAS})\s?(?P<row>\(\d{{1,3}}[a-z]?\)(?:(?:{joint})\(\d{{1,3}}[a-z]?\))*)"

    def words(found: re.Match[str]) -> str:
        name = shorts.get(found["name"], found["name"])
        name = name[0].upper() + name[1:] if found["name"][0].isupper() else name
        row = re.sub(r"(?<=\))\s?[–-]\s?", f" {around_range(found, language)[1]} ", found["row"])
        said = re.sub(r"\((\d+)([a-z]?)\)", lambda each: f"{cardinal(each[1], language)} {each[2]}".rstrip(), row)
        return f"{name} {said}"

    return [(re.compile(pattern), words)]


def scales_of_maps(language: Language) -> list[tuple[re.Pattern[str], Callable[[re.Match[str]], str | None]]]:
    """1:50 000, which is no time."""
    word = {"nl": "op", "ru": "к"}.get(language.locale) or table(language.locale).signs.ratio
    if not word or not language.spaced:
        return []
    pattern = rf"(?<![\w.,:])1:(?P<n>\d{{1,3}}(?:[{re.escape(language.groups)}{BLANKS}]000)+)(?![\w:]|[.,:]\d)"

    def words(found: re.Match[str]) -> str:
        digits = re.sub(r"\D", "", found["n"])
        said = in_case(int(digits), language, "d") if language.locale == "ru" else cardinal(digits, language)
        return f"{cardinal('1', language)} {word} {said}"

    return [(re.compile(pattern), words)]


def near_score(before: str, code: str) -> bool:
    """True where the last sentence of these words tells of a game: they lost, das Spiel endete."""
    words = table(code).scores
    if not words:
        return False
    return re.search(rf"(?<!\w)(?:{'|'.join(words)})", re.split(r"[.!?;。！？]", before)[-1], re.IGNORECASE) is not None


def _pair(found: re.Match[str], language: Language) -> str | None:
    """A score: 6-4."""
    if language.locale not in _SCORED:
        return None
    blank = " " if language.spaced else ""
    before = found.string[max(0, found.start() - 10) : found.start()]
    between = "" if _FIGURE.search(before) else table(language.locale).signs.score
    return blank.join(filter(None, (cardinal(found[1], language), between, cardinal(found[2], language))))


_FIGURE = re.compile(r"\b(?:Abb|Tab|Fig|Bild|Gl|[Ff]ig|[Tt]ab|[Aa]fb)\.?\s$")
_SCORED = ("en", "de", "nl", "pl", "fr", "es", "it", "pt", "ja", "zh", "fa", "tr")


def _ratios(language: Language) -> list[Reading]:
    """3:1, which is no time."""
    word = table(language.locale).signs.ratio
    if not word:
        return []
    blank = " " if language.spaced else ""

    def words(found: re.Match[str]) -> str:
        screen = found[0] in ("16:9", "16:10", "21:9") and language.locale in ("en", "nl")
        joint = table(language.locale).signs.by if screen else word
        return f"{cardinal(found[1], language)}{blank}{joint}{blank}{cardinal(found[2], language)}"

    letters = r"\w" if language.spaced else "A-Za-z0-9_"
    pattern = rf"(?<![{letters}.,:/–-])(\d{{1,4}}):(\d{{1,4}})(?![{letters}:/])(?![.,–-]\d)"
    return [(re.compile(pattern), words)]
