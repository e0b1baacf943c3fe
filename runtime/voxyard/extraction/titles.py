"""Titles of chapters in a text that marks no headings: lines such as CHAPTER IV, Kapitel 2: Der Müller, 第一章."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise

_LONGEST = 80  # characters of a title
_FEWEST_NUMBERS = 3  # that are titles alone
_IN_WORDS = tuple(
    each.split()
    for each in (
        "one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen"
        " eighteen nineteen twenty twenty-one twenty-two twenty-three twenty-four twenty-five twenty-six twenty-seven"
        " twenty-eight twenty-nine thirty",
        "eins zwei drei vier fünf sechs sieben acht neun zehn elf zwölf dreizehn vierzehn fünfzehn sechzehn siebzehn"
        " achtzehn neunzehn zwanzig",
        "un deux trois quatre cinq six sept huit neuf dix onze douze treize quatorze quinze seize",
        "uno dos tres cuatro cinco seis siete ocho nueve diez once doce trece catorce quince",
        "uno due tre quattro cinque sei sette otto nove dieci undici dodici tredici quattordici quindici",
        "um dois três quatro cinco seis sete oito nove dez onze doze treze catorze quinze",
        "один два три четыре пять шесть семь восемь девять десять одиннадцать двенадцать",
    )
)
_FIGURES = ("", "一", "二", "三", "四", "五", "六", "七", "八", "九")
_BELOW = 2  # paragraphs from one to the next, at least
_MOST_TITLES = 0.5  # of the paragraphs
_LONGEST_BELOW = 60  # of the line below a number, which names the chapter
_WORDS = (
    r"chapter|chap\.|part|book|volume|canto|letter|act|kapitel|teil|buch|band|brief|chapitre|partie|livre|tome|acte|"
    r"cap[ií]tulo|parte|libro|capitolo|livro|hoofdstuk|deel|boek|rozdział|część|księga|tom|глава|часть|книга|том|"
    r"розділ|частина|kapitola|část|kniha|kapitlet|bölüm|luku|fejezet|κεφάλαιο|פרק|chương|bab|الفصل|الباب|अध्याय|"
    r"บทที่|บท|ตอนที่|ภาคที่|unit|lesson|module|lecture|stave|episode|lektion|einheit|folge|leçon|unité|épisode|"
    r"lección|unidad|episodio|lezione|unità|lição|unidade|lekcja|урок|лекция|серия"
)
_CARDINALS = (
    r"one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|\w+teen|"
    r"(?:twenty|thirty|forty|fifty|sixty|seventy|eighty|ninety)(?:[ -]\w+)?|"
    r"eins|zwei|drei|vier|fünf|sechs|sieben|acht|neun|zehn|elf|zwölf|\w+zehn|\w*zwanzig|\w*dreißig|"
    r"une?|deux|trois|quatre|cinq|sept|huit|neuf|dix|onze|douze|treize|quatorze|quinze|seize|vingt|"
    r"uno|dos|tres|cuatro|cinco|seis|siete|ocho|nueve|diez|once|doce|"
    r"due|tre|quattro|cinque|sei|sette|otto|nove|dieci|um|dois|três|quatro|sete|oito|dez|"
    r"один|два|три|четыре|пять|шесть|семь|восемь|девять|десять"
)
_ORDINALS = (
    r"(?:the )?(?:first|second|third|fourth|fifth|sixth|seventh|eighth|ninth|tenth|eleventh|twelfth|\w+teenth|last)|"
    r"(?:erste|zweite|dritte|vierte|fünfte|sechste|siebte|siebente|achte|neunte|zehnte|elfte|zwölfte|\w+zehnte|"
    r"\w*zwanzigste|letzte)[rs]?|premi(?:er|ère)|seconde?|(?:deux|trois|quatr|cinqu|six|sept|huit|neuv|dix)ième|"
    r"derni(?:er|ère)|(?:primer|segund|tercer|cuart|quint|sext|séptim|octav|noven|décim|prim|second|terz|quart|sest|"
    r"settim|ottav|non|decim|primeir|terceir)[oa]|primer|tercer|перв(?:ая|ый)|втор(?:ая|ой)|трет(?:ья|ий)|"
    r"(?:четв[её]рт|пят|шест|седьм|восьм|девят|десят|\w+надцат|двадцат|последн)(?:ая|ый|ой|яя|ий)|"
    r"الأول|الثاني|الثالث|الرابع|الخامس"
)
_ALONE = (
    r"prologue|epilogue|introduction|foreword|preface|afterword|interlude|appendix|acknowledge?ments|prolog|epilog|"
    r"vorwort|nachwort|einleitung|anhang|zwischenspiel|préface|avant-propos|épilogue|postface|prólogo|epílogo|"
    r"prefacio|prefácio|introducción|introdução|epilogo|prefazione|introduzione|пролог|эпилог|предисловие|"
    r"послесловие|введение|楔子|序|序章|序言|前言|引子|引言|尾声|尾聲|终章|終章|后记|後記|"
    r"プロローグ|エピローグ|あとがき|まえがき|프롤로그|에필로그"
)
_NUMBER = rf"(?:\d{{1,4}}|[IVXLCDM]{{1,8}}|{_CARDINALS}|{_ORDINALS})"
_LED = rf"(?:(?:{_WORDS})(?:\s+(?:no\.\s*)?|\.|\s*[#№]\s*){_NUMBER}|(?:{_ORDINALS}|\d{{1,3}}\.)\s+(?:{_WORDS}))"
_TITLE = re.compile(rf"(?:{_LED}|(?P<alone>{_ALONE}))(?P<rest>(?![\w’']).*)", re.IGNORECASE)
_DIGITS = "零〇一二三四五六七八九十百千万两壹贰叁肆伍陆柒捌玖拾佰仟0-9０-９"
_EASTERN = re.compile(
    rf"(?:正文\s*)?第\s*[{_DIGITS}]{{1,9}}\s*(?:[章话話幕]|回(?!合)|[节節](?!课|目)).*|第\s*[{_DIGITS}]{{1,9}}\s*[卷部篇集册](?:[\s：:、].*)?|"
    r"제?\s*\d{1,4}\s*[장화편부](?:[\s.:].*)?|"
    r"[零〇一二三四五六七八九十百千]{1,7}章(?:[\s：:、].*)?|"
    r"卷[零〇一二三四五六七八九十百]{1,5}(?:[\s：:、].*)?|(?:番外篇?|外传|外傳)(?:[\s：:、0-9一二三四五六七八九十].*)?"
)
_OF_PARTS = (
    r"part|book|volume|act|teil|buch|band|partie|livre|tome|acte|parte|libro|livro|deel|boek|część|księga|tom|часть|"
    r"книга|том|частина|část|kniha"
)
_PART = re.compile(rf"(?:{_OF_PARTS})\b|(?:{_ORDINALS})\s+(?:{_OF_PARTS})\b|第[{_DIGITS}]+[卷部篇集册]", re.IGNORECASE)
_BARE_NUMBER = re.compile(r"\d{1,3}\.?|[IVXLC]{1,8}\.?")
_ORNAMENTS = re.compile(r"^[*=~_–—-]+\s*|\s*[*=~_–—-]+$|【|(?<=[章节回话])】|】$")  # around a title
_SIGNS = frozenset("*=~_–—-【】")
_RULE = re.compile(r"^[=~*_–—-]{2,}[^\S\n]*$\n?", re.MULTILINE)  # below one
_MARKED = re.compile(r"#{1,3}\s+(?P<title>\S.*)")
_EASTERN_BEGINS = frozenset("正第제卷番外")
_NAME = re.compile(rf"(?:{_WORDS}|{_ALONE})(?![\w’'])")
_WORDS_BEFORE = 2  # the name of a title: The Last Chapter
_APART = re.compile(r"[\s]*(?:[.:：—–|-]+\s*|$)")
DIRECTS = re.compile(r"\[(?:/[ \t]*)?(?:voice|pause|break|silence)\b[^\]\[\r\n]*\]|<break\b[^<>\r\n]*>", re.IGNORECASE)
"""A tag that directs the voice: no part of a title."""
_MOST_WORDS = 6  # of a name in a language without capitals
_NAMED_NUMBER = re.compile(r"(?P<number>\d{1,3}|[IVXLC]{1,7})(?:\s?[.:–—-]\s+|\s{2,})(?P<name>\S.*)")
_FEWEST_LETTERS = 4  # of a title in capitals
_SENTENCE = re.compile(r"[.,;，。；！!？?、][\"”’»)」』]*$")


def chapter_title(paragraph: str) -> str | None:
    """The title of a chapter that a paragraph is, or begins with on a line of its own; else None.

    A line below a chapter's bare number belongs to its title where it is short and no sentence. `# One` is a title,
    too, as programs write it into plain text.
    """
    first, _, rest = paragraph.partition("\n")
    first = first.strip()
    if not first or len(first) > _LONGEST:
        return None
    if first[0] == "#" and (marked := _MARKED.fullmatch(first)) is not None:
        return None if rest.strip() else marked["title"].strip()
    if not _SIGNS.isdisjoint(first):
        first = _ORNAMENTS.sub(" ", first).strip()
    if not _is_title(first):
        return None
    below = _RULE.sub("", rest).strip()
    named = below and "\n" not in below and len(below) <= _LONGEST_BELOW and _SENTENCE.search(below) is None
    return f"{first} {below}" if named else first


@lru_cache(maxsize=8192)
def _names(word: str) -> bool:
    """True for a word that a title has among its first ones: most paragraphs are no title by these alone."""
    return _NAME.match(word.lower()) is not None


def _is_title(line: str) -> bool:
    begins = line[:1] in _EASTERN_BEGINS or line[:1].isnumeric()
    if begins and _EASTERN.fullmatch(line) is not None:
        return _SENTENCE.search(line) is None and len(line) <= _LONGEST // 2
    if not any(map(_names, line.split(None, _WORDS_BEFORE + 1)[: _WORDS_BEFORE + 1])):
        return False
    found = _TITLE.fullmatch(line)
    if found is None:
        return False
    rest = found["rest"]
    apart = _APART.match(rest)
    named = rest[apart.end() :] if apart is not None else rest.strip()
    if not named:
        return True
    if found["alone"] is not None and (apart is None or not rest.strip()):
        return False
    return (apart is not None or _may_begin(named)) and not _is_sentence(named, apart is None)


def _may_begin(name: str) -> bool:
    """True for a name of a chapter by its first letter, which is a capital, or has no case."""
    first = next((each for each in name if each.isalnum()), "")
    return first.isalpha() and not first.islower()


def _is_sentence(text: str, close: bool) -> bool:
    """True for a text that ends, or, directly after a number, goes on as a sentence does."""
    if text.rstrip('"”’»)').endswith((".", ",", ";")) and not text.endswith(("...", "…")):
        return True
    words = [word for word in text.split() if word[0].isalpha()]
    if all(word.lower() == word.upper() for word in words):
        return close and len(words) > _MOST_WORDS
    return close and len(words) > 2 and sum(word[0].isupper() for word in words) < len(words) / 2


def is_part(title: str) -> bool:
    """True for the title of a part, which has chapters: Part One, Zweites Buch, 第一卷."""
    return _PART.match(title.strip()) is not None and chapter_title(title) is not None


def is_of_chapter(title: str) -> bool:
    """True for a title that says that it is a chapter's, or is a bare number."""
    return _BARE_NUMBER.fullmatch(title.strip()) is not None or (
        chapter_title(title) is not None and not is_part(title)
    )


def numbers_alone(paragraphs: Sequence[str]) -> dict[int, str]:
    """The paragraphs that are numbers from 1 on, in figures or in words; none of fewer than 3."""
    found: dict[int, str] = {}
    next_one = _written(1)
    for at, text in enumerate(paragraphs):
        if len(text) <= _LONGEST and unicodedata.normalize("NFKC", text).strip(" .、").casefold() in next_one:
            found[at] = text.strip()
            next_one = _written(len(found) + 1)
    return found if len(found) >= _FEWEST_NUMBERS else {}


def numbered_names(paragraphs: Sequence[str]) -> dict[int, str]:
    """The paragraphs that are names after numbers from 1 on, with text below: 1. The Storm; none of fewer than 3."""
    found: dict[int, str] = {}
    next_one, last = ("1", "I"), -_BELOW
    for at, text in enumerate(paragraphs[:-1]):
        line = text.strip()
        named = _NAMED_NUMBER.fullmatch(line) if len(line) <= _LONGEST else None
        if named is None or named["number"].lstrip("0") not in next_one:
            continue
        if at - last >= _BELOW and _may_begin(named["name"]) and _SENTENCE.search(line) is None:
            found[at], last = line, at
            next_one = (str(len(found) + 1), roman(len(found) + 1))
    return found if len(found) >= _FEWEST_NUMBERS else {}


def in_capitals(paragraphs: Sequence[str]) -> dict[int, str]:
    """The paragraphs in capitals, each above a text: THE STORM; none of fewer than 3, or where one is there twice.

    The names of those who speak in a play are there again and again.
    """
    found = {
        at: text.strip()
        for at, (text, below) in enumerate(pairwise(paragraphs))
        if _is_in_capitals(text.strip()) and below and not _is_in_capitals(below.strip())
    }
    several = len(found) >= _FEWEST_NUMBERS and len(set(found.values())) == len(found)
    return found if several and len(found) <= _MOST_TITLES * len(paragraphs) else {}


def _is_in_capitals(line: str) -> bool:
    return (
        line.isupper()
        and len(line) <= _LONGEST_BELOW
        and "\n" not in line
        and line[0].isalnum()
        and sum(map(str.isalpha, line)) >= _FEWEST_LETTERS
        and _SENTENCE.search(line) is None
    )


def _written(number: int) -> set[str]:
    """A number as it may be written, in small letters: 2, ii, 二, two, zwei."""
    words = {each[number - 1] for each in _IN_WORDS if number <= len(each)}
    return {str(number), roman(number).casefold(), chinese(number), *words}


def chinese(number: int) -> str:
    """A number below 100 in Chinese figures: 二十三."""
    tens, ones = divmod(number, 10)
    return ("" if tens < 2 else _FIGURES[tens]) + "十" * bool(tens) + _FIGURES[ones]


def roman(number: int) -> str:
    """A number below 400 in Roman figures."""
    signs = [(100, "C"), (90, "XC"), (50, "L"), (40, "XL"), (10, "X"), (9, "IX"), (5, "V"), (4, "IV"), (1, "I")]
    text = ""
    for value, sign in signs:
        text += sign * (number // value)
        number %= value
    return text
