"""Figures in the words of a language, by num2words: counted, ordered, as a year, before a noun, digit by digit."""

from __future__ import annotations

import re
from decimal import Decimal
from functools import lru_cache

from voxyard.speech.reading import chinese
from voxyard.speech.reading.languages import Language
from voxyard.speech.reading.tables import table

MOST_DIGITS = 15  # a longer number is read digit by digit, and so is one that begins with 0
_RUSSIAN_PLACES = 3
_PERSIAN_PARTS = ("دهم", "صدم", "هزارم")  # of places that are read as a part: سه و چهارده صدم
_FRENCH_PLACES = 3  # that are read as a number: trois virgule quatorze
_TURKISH = re.compile(
    "sıfır|bir|iki|üç|dört|beş|altı|yedi|sekiz|dokuz|on|yirmi|otuz|kırk|elli|altmış|yetmiş|seksen|doksan|yüz|bin|"
    "milyon|milyar|trilyon|katrilyon"
)


def cardinal(digits: str, language: Language, noun: str | None = None) -> str:
    """A whole number in words; with `noun` as it stands before that noun, figures where the language has no words."""
    if language.number_words is None:
        return digits
    if len(digits) > MOST_DIGITS or (digits[0] == "0" and digits != "0"):
        return (" " if language.spaced else "").join(_words(int(digit), language.number_words) for digit in digits)
    number = int(digits)
    if noun is None:
        return _words(number, language.number_words)
    feminine = language.is_feminine(noun)
    if language.number_words == "ru":
        return _russian_feminine(number) if feminine else _words(number, "ru", gender="m")
    words = _words(number, language.number_words)
    millions = re.match(_UP_TO_MILLIONS, words)  # which are masculine themselves: doscientos millones de casas
    head, tail = (millions[0], words[millions.end() :]) if millions else ("", words)
    for pattern, replacement in language.feminine_forms if feminine else language.masculine_forms:
        tail = re.sub(pattern, replacement, tail)
    return head + tail


_UP_TO_MILLIONS = r".*(?:ill(?:ón|ones)|ilh(?:ão|ões))\b"


def signed(found: re.Match[str], language: Language) -> str:
    """The word of a number's sign, with the blank after it; "" without one."""
    if not found["sign"]:
        return ""
    words = language.minus if found["sign"] != "+" else table(language.locale).signs.plus
    return f"{words}{' ' if language.spaced else ''}" if words else found["sign"]


def before_word(digits: str, word: str, language: Language) -> str | None:
    """A whole number as it stands before a word; None where its form depends on a gender that is not known."""
    bare = cardinal(digits, language)
    forms = {cardinal(digits, language, noun) for noun in ("\0", *_A_FEMININE.get(language.locale, ()))}
    if forms == {bare} or re.fullmatch(language.alone, word, re.IGNORECASE):
        return bare
    if language.locale in _NAMES_ARE_CAPITALIZED and word[0].isupper() and len(digits) > 2:
        return bare  # a name, as of the town after its postcode
    if language.locale == "de" and len(digits) > 2:
        return bare  # einhunderteins Seiten
    if language.is_feminine(word) and language.locale != "it":
        return cardinal(digits, language, word)
    gender = None if language.locale == "de" else table(language.locale).gender(word)  # in German of the case too
    feminine = gender == "feminine" or (gender is None and re.search(f"(?:{language.feminine_ends})$", word))
    if language.locale == "it" and not feminine and digits == "1" and _IMPURE.match(word):
        return bare  # uno studente
    if language.locale == "it" and digits == "1" and _VOWEL.match(word) and (gender == "feminine" or feminine):
        return "un'"  # ora
    if gender is not None:
        return cardinal(digits, language, _A_FEMININE[language.locale][0] if gender == "feminine" else "\0")
    if language.locale == "ru" and bare.endswith("два"):  # of 2 the genitive is counted: две книги, два дома
        return _russian_feminine(int(digits)) if re.search("[ыи]$", word) else bare if word[-1] in "ая" else None
    if language.feminine_ends and re.search(f"(?:{language.feminine_ends})$", word):
        return bare if bare.endswith("dwa") else cardinal(digits, language, _A_FEMININE[language.locale][0])
    if language.masculine_ends and re.search(f"(?:{language.masculine_ends})$", word):
        return cardinal(digits, language, "\0")
    return None


_NAMES_ARE_CAPITALIZED = ("es", "fr", "it", "pt")
_VOWEL = re.compile("[aeiouàèéìòù]", re.IGNORECASE)
_IMPURE = re.compile(r"s[bcdfgklmnpqrtvwz]|z|x|y|ps|pn|gn|i[aeou]", re.IGNORECASE)
_A_FEMININE = {
    "de": ("Minute",),
    "fr": ("minute",),
    "es": ("hora",),
    "it": ("ora",),
    "pt": ("hora",),
    "pl": ("minuta",),
    "ru": ("минута",),
}


def decimal(whole: str, part: str, language: Language, noun: str | None = None) -> str:
    """A number with the digits after its decimal sign; with `noun` as it stands before it, where there are none."""
    if not part:
        return cardinal(whole, language, noun)
    if language.number_words is None:
        return f"{whole}{language.decimal}{part}"
    if language.number_words == "fa" and 0 < len(part.rstrip("0")) <= len(_PERSIAN_PARTS) and len(whole) <= MOST_DIGITS:
        return _persian_fraction(whole, part.rstrip("0"), language)
    if language.number_words == "ru" and len(part) <= _RUSSIAN_PLACES and len(whole) <= MOST_DIGITS:
        return _russian_fraction(whole, part)
    blank = " " if language.spaced else ""
    if language.number_words == "fr" and len(part) <= _FRENCH_PLACES:
        zeros = len(part) - len(part.lstrip("0"))
        rest = [cardinal(part[zeros:], language)] if part[zeros:] else []
        return " ".join([cardinal(whole, language), language.point, *["zéro"] * zeros, *rest])
    digits = blank.join(_words(int(digit), language.number_words) for digit in part)
    return blank.join((cardinal(whole, language), language.point, digits))


def before_range(found: re.Match[str], language: Language, noun: str) -> str | None:
    """The first number of a range and the word after it, "" where `found` is no range; None for one that is not read.

    It is read where the first number is the smaller one and the language has a word between two numbers.
    """
    if found["first"] is None:
        return ""
    whole, part = re.sub(r"\D", "", found["first"]), found["first_part"] or ""
    last = value(re.sub(r"\D", "", found["whole"]), found["part"] or "")
    if found["sign"] or not language.to or value(whole, part) >= last:
        return None
    blank = " " if language.spaced else ""
    start, joint = around_range(found, language)
    before = "" if language.locale == "ko" else blank  # a particle
    return f"{start}{decimal(whole, part, language, noun)}{before}{joint}{blank * bool(joint)}"


def around_range(found: re.Match[str], language: Language) -> tuple[str, str]:
    """What stands before a range, with its blank, and between its numbers: da cinque a dieci, tra due e tre."""
    before = found.string[max(0, found.start() - 24) : found.start()]
    if language.locale in _BETWEEN and (pair := _BETWEEN[language.locale])[0].search(before):
        return "", pair[1]
    if language.locale != "it":
        return "", language.to
    if _PREPOSITION_BEFORE.search(before) or re.search(r"\d[:,.]?\s?$", before):
        return "", ""
    return "da ", language.to


_BETWEEN = {  # the word before two numbers, and that which then stands between them
    code: (re.compile(rf"(?<!\w)(?:{words})\s$", re.IGNORECASE), joint)
    for code, words, joint in (
        ("en", r"between(?:\s(?:about|around|the))?", "and"),
        ("de", r"zwischen(?:\s(?:ca\.|circa|etwa|rund|den))?", "und"),
        ("nl", r"tussen(?:\s(?:ca\.|circa|ongeveer|de))?", "en"),
        ("it", "tra|fra", "e"),
    )
}
_PREPOSITION_BEFORE = re.compile(
    r"(?<!\w)(?:d[aei]|in|ad?|per|con|su|circa|il|i|gli|le|la|ogni|entro|oltre|(?:d[ae]|ne|a|su)(?:l|ll[aeo]?|i|gli))\s$|"
    r"['’€$£]\s?$",
    re.IGNORECASE,
)


def of_million(words: str, noun: str, language: Language) -> str:
    """The preposition between a number that ends with a million and its noun: un millón de euros; else ""."""
    if not re.search(_MILLION.get(language.locale, "(?!)"), words):
        return ""
    if language.locale == "fr" and re.match(ELIDED, noun, re.IGNORECASE):
        return "d'"
    return "di " if language.locale == "it" else "de "


_ONE_OF = {
    "millions": "million",
    "milliards": "milliard",
    "Millionen": "Million",
    "Milliarden": "Milliarde",
    "millones": "millón",
    "milioni": "milione",
    "miliardi": "miliardo",
    "milhões": "milhão",
    "bilhões": "bilhão",
}


def singular_scale(words: str, amount: Decimal | int, language: Language) -> str:
    """The word of a scale after so many: uma milhão, 1,5 milhão."""
    from babel import Locale

    return _ONE_OF.get(words, words) if Locale.parse(language.locale).plural_form(amount) == "one" else words


def has_plural_of_millions(language: Language) -> bool:
    """True where numbers that end with a million have a plural and a preposition of their own."""
    return language.locale in _MILLION


ELIDED = r"[aàâeéèêiîoôuyœ]|h(?:abit|omme|eure|ect|ôt|ôp|ist|um|erb)"
"""Beginnings of French nouns before which "de" loses its vowel."""

_MILLION = {
    "es": r"ill(?:ón|ones)$",
    "fr": r"illi(?:on|ard)s?$",
    "it": r"(?:ilion[ei]|iliard[oi])$",
    "pt": r"ilh(?:ão|ões)$",
}


def _russian_fraction(whole: str, part: str) -> str:
    """Две целых пять десятых: wholes and tenths, as decimals are read in Russian."""
    part_of = ("десят", "сот", "тысячн")[len(part) - 1]
    number, parts = int(whole), int(part)
    return (
        f"{_russian_feminine(number)} {'целая' if _is_one(number) else 'целых'} "
        f"{_russian_feminine(parts)} {part_of}{'ая' if _is_one(parts) else 'ых'}"
    )


def _persian_fraction(whole: str, part: str, language: Language) -> str:
    """سه و چهارده صدم, ده و نیم; without wholes the part alone: پنج صدم."""
    parts = "نیم" if part == "5" else f"{cardinal(str(int(part)), language)} {_PERSIAN_PARTS[len(part) - 1]}"
    return parts if not int(whole) else f"{cardinal(whole, language)} و {parts}"


def _is_one(number: int) -> bool:
    """True for 1, 21, 101: the noun after it is in the singular in Russian."""
    return number % 10 == 1 and number % 100 != 11


def _russian_feminine(number: int) -> str:
    """As it stands before a feminine noun: its last word alone has a gender (один миллион одна)."""
    words = _words(number, "ru", gender="m")
    return re.sub(r"\bдва$", "две", re.sub(r"\bодин$", "одна", words))


def in_case(number: int, language: Language, case: str) -> str:
    """A whole number in one of num2words' cases, in languages that have them."""
    return _words(number, language.number_words or "", case=case)


def ordinal(number: int, language: Language, **forms: str) -> str:
    """The number in an order: third. `forms` are num2words' case and gender, where it has them."""
    if number == 0 and language.number_words in _ZEROTH:
        return _ZEROTH[language.number_words]
    if language.number_words == "es" and number in (11, 12):
        return "undécimo" if number == 11 else "duodécimo"
    if language.number_words == "tr":
        return _turkish_ordinal(cardinal(str(number), language))
    return _words(number, language.number_words or "", to="ordinal", **forms)


_ZEROTH = {"pl": "zerowy", "uk": "нульовий"}  # which num2words does not know


def year(number: int, language: Language) -> str:
    """A year; in English, German and Dutch by hundreds before 2000."""
    if language.number_words is None:
        return str(number)
    if language.number_words == "nl" and 1100 <= number <= 1999:  # negentienhonderdvijfenveertig
        rest = number % 100
        return f"{_words(number // 100, 'nl')}honderd{_words(rest, 'nl') if rest else ''}"
    way = "year" if language.counts_years and language.number_words != "nl" else "cardinal"
    return _words(number, language.number_words, to=way)


def is_year(digits: str) -> bool:
    """True for four figures that are more often a year than a quantity."""
    return len(digits) == 4 and (1100 <= int(digits) <= 1999 or 2010 <= int(digits) <= 2099)


def whole_number(digits: str, language: Language, word: str | None) -> str | None:
    """A whole number, or a year, as it stands before a word; None where that has an unknown gender."""
    if is_year(digits) and language.counts_years:
        return year(int(digits), language)
    return before_word(digits, word, language) if word else cardinal(digits, language)


def value(whole: str, part: str) -> Decimal | int:
    """The number itself, for plural rules."""
    return Decimal(f"{whole}.{part}") if part else int(whole)


@lru_cache(maxsize=4096)
def _words(number: int, language: str, to: str = "cardinal", **forms: str) -> str:
    if language == "zh":
        return chinese.cardinal(int(number))
    if language == "nl" and to == "cardinal" and 1100 <= number <= 9900 and number % 1000 and not number % 100:
        return f"{_words(number // 100, 'nl')}honderd"  # vijftienhonderd
    if language == "tr" and to == "cardinal" and number >= 1000:
        return _turkish(number)
    from num2words import num2words

    words = str(num2words(number, lang=language, to=to, **forms))
    words = words.replace(", ", " ").replace("\N{SOFT HYPHEN}", "")
    if language == "es":  # veintiún mil, treinta y un millones
        words = re.sub(r"\buno (?=mil)", "un ", words).replace("veintiuno mil", "veintiún mil")
    if language == "fr" and to == "ordinal":  # deux centième, quatre-vingtième
        words = re.sub(r"(?<=cent|ingt)s(?=ième$)|(?<=illion|lliard)s(?=ième$)", "", words)
    if language == "fa" and to == "ordinal":
        words = re.sub(r"یم$", "ی\N{ZERO WIDTH NON-JOINER}ام", words)  # سی‌ام
    if language == "it":
        words = re.sub(r"(?<=\w)tre$", "tré", words.replace("centodicotto", "centodiciotto"))
        words = re.sub(r"(?<=o)diecesimo$", "decimo", words)
    return " ".join(_TURKISH.findall(words)) if language == "tr" and to == "cardinal" else " ".join(words.split())


_TURKISH_SCALES = ((10**12, "trilyon"), (10**9, "milyar"), (10**6, "milyon"), (1000, "bin"))


def _turkish(number: int) -> str:
    """A number from a thousand on: üç yüz bir bin, but bin."""
    words = []
    for size, name in _TURKISH_SCALES:
        count, number = divmod(number, size)
        if count:
            words += [name] if count == 1 and name == "bin" else [_words(count, "tr"), name]
    return " ".join([*words, _words(number, "tr")] if number else words)


_HARMONY = dict(zip("aıeioöuü", "ııiiuüuü", strict=True))  # the last vowel → that of an ending


def _turkish_ordinal(words: str) -> str:
    """Birinci, dördüncü, yirmi altıncı."""
    vowel = _HARMONY[next(letter for letter in reversed(words) if letter in _HARMONY)]
    stem = re.sub("dört$", "dörd", words)
    return f"{stem}{'' if stem[-1] in _HARMONY else vowel}nc{vowel}"
