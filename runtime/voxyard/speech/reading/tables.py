"""Tables of a language's words: abbreviations, genders of nouns, units, signs, names before Roman numerals.

They are the files `tables/CODE.yaml`; a language without a file has none of these words.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from functools import cached_property, lru_cache
from importlib import resources

Forms = tuple[str, str]  # of one, and of more


@dataclass(frozen=True)
class Signs:
    """Words of signs; "" where the language has none. Signs of one character stand in `operators`."""

    operators: Mapping[str, str] = field(default_factory=dict)
    at: str = ""
    dot: str = ""  # of an address
    point: str = ""  # of a version
    colon: str = ""  # of a port
    slash: str = ""
    dash: str = ""
    underscore: str = ""
    hashtag: str = ""
    squared: str = ""
    cubed: str = ""
    power: str = ""
    root: str = ""
    per: str = ""
    positive: str = ""  # +5; "" where it is the plus of a sum
    ratio: str = ""  # 3:1
    score: str = ""  # 6-4
    sections: str = ""  # §§
    out_of: str = ""  # 4.5/5
    of: str = ""  # O(1), t(38)
    over: str = ""  # 120/80 mmHg
    by: str = ""  # 4x100
    times: str = ""  # 3x a day
    once: str = ""  # 1x a day
    degrees: Forms | None = None
    minutes: Forms | None = None
    seconds: Forms | None = None
    poles: Mapping[str, str] = field(default_factory=dict)  # N → north

    @property
    def plus(self) -> str:
        """Word before a number with the sign +."""
        return self.positive or self.operators.get("+", "")


@dataclass(frozen=True)
class RomanNames:
    """Words before a Roman numeral: things that are numbered, rulers who are counted, and their titles."""

    numbered: tuple[str, ...] = ()
    rulers: tuple[str, ...] = ()
    queens: tuple[str, ...] = ()
    titles: tuple[str, ...] = ()


@dataclass(frozen=True)
class WordTable:
    """Words of one language.

    A key of `abbreviations` may have blanks after its full stops. `#` at its end: only before a figure; `^`: only
    before a capital letter, as of a name, or another title (Mr. and Mrs. Bell); `&`: only after a name or an ordinal,
    as in an address; `$`: it may end a sentence, and its full stop then stays, as after `&`.
    """

    abbreviations: Mapping[str, str] = field(default_factory=dict)
    between_titles: str = "&"  # pattern of the word between two titles of one name
    per: Mapping[str, str] = field(default_factory=dict)  # what may stand after a slash, as in $50/wk, and is no unit
    genitive: tuple[str, ...] = ()  # patterns of words that want it without a preposition, in Russian and Polish
    before_office: str = "(?!)"  # pattern of what stands between a key with ^ and a name: M. le maire, av. des Lilas
    titles: tuple[str, ...] = ()  # without a key with ^, before which, with "and", a title is read
    units: Mapping[str, str] = field(default_factory=dict)  # symbol → its name in CLDR
    counted: Mapping[str, tuple[str, ...]] = field(
        default_factory=dict
    )  # short for what is counted, and no unit: 2 pcs; in
    # Polish its four forms: jeden punkt, dwa punkty, pięć punktów, 2,5 punktu
    si: Mapping[str, str] = field(default_factory=dict)  # names of units, and of their prefixes with a hyphen: k-
    rooms: Mapping[str, Forms] = field(default_factory=dict)  # the same short form in the words of a flat: 3 hab.
    dotted: tuple[str, ...] = ()  # units that may have a full stop
    cents: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # currency → its hundredth
    scales_of_money: Mapping[str, str] = field(default_factory=dict)  # M in 10 M€
    currencies: Mapping[str, str] = field(default_factory=dict)  # its own signs of money → their codes
    scales_of_numbers: Mapping[str, str] = field(default_factory=dict)
    fractions: Mapping[int, Forms] = field(default_factory=dict)  # by what is below the line
    masculine: tuple[str, ...] = ()  # nouns; -ema: their ending
    feminine: tuple[str, ...] = ()
    neutral: tuple[str, ...] = ()
    ordinals: Mapping[str, str] = field(default_factory=dict)  # form of a noun → ending of a Polish ordinal before it
    persons: tuple[str, ...] = ()  # men in the genitive plural, before whom Polish numbers have it too: pięciu posłów
    starters: tuple[str, ...] = ()  # words with which a sentence begins
    labels: tuple[str, ...] = ()  # words after which a number stands for itself: page 1
    phones: tuple[str, ...] = ()  # words after which figures are a phone number
    days: Mapping[str, str] = field(default_factory=dict)  # of the week, by their short names
    codes: tuple[str, ...] = ()  # words after which figures are read one by one: PIN 1234
    records: tuple[str, ...] = ()  # words before the number of a paper that has a year: invoice 2024-117
    scores: tuple[str, ...] = ()  # words beside the score of a game: patterns of their beginnings
    pressure: tuple[str, ...] = ()  # words for that of the blood: patterns
    no_attribute: tuple[str, ...] = ()  # words after a quantity that is no attribute: 5 km of
    books: Mapping[str, str] = field(default_factory=dict)  # of the Bible, by their short names
    chess: Mapping[str, str] = field(default_factory=dict)  # pieces by their letters, and x, which takes one
    things: Mapping[str, str] = field(
        default_factory=dict
    )  # Korean counter → nouns before it, of which a number is native
    english: Mapping[str, str] = field(default_factory=dict)  # names with figures that are said in English: MP3
    emoji: Mapping[str, str] = field(default_factory=dict)  # names, where Unicode's own is no usual one
    before_name: Mapping[str, str] = field(default_factory=dict)  # words of a key with & before a name: St. Mary
    signs: Signs = field(default_factory=Signs)
    roman: RomanNames = field(default_factory=RomanNames)

    def gender(self, noun: str) -> str | None:
        """`masculine`, `feminine` or `neutral`; None for a noun that the table does not tell.

        The longest noun or ending decides: a noun is the whole word or, in German, the end of a compound.
        """
        word = noun.casefold()
        ends_of_many = ("s", "x") if word.endswith("tes") else ("s", "x", "es")  # visites, of visite
        singulars = [word[: -len(end)] for end in ends_of_many if word.endswith(end) and len(word) > len(end) + 1]
        forms = (word, *singulars)
        whole = (self._genders.get((True, each)) for each in forms)
        ends = (self._genders.get((False, each[-length:])) for each in forms for length in range(len(each) - 1, 0, -1))
        return next(filter(None, (*whole, *ends)), None)

    @cached_property
    def _genders(self) -> dict[tuple[bool, str], str]:
        """Gender by (is it the whole word, its end)."""
        found: dict[tuple[bool, str], str] = {}
        for gender in ("masculine", "feminine", "neutral"):
            for noun in getattr(self, gender):
                end = noun.removeprefix("-").casefold()
                if not noun.startswith("-"):
                    found[(True, end)] = gender
                if noun.startswith("-") or (self.neutral and len(end) > 2):  # compounds, in German
                    found.setdefault((False, end), gender)
        return found


def form_of(forms: Sequence[str], amount: Decimal | int, locale: str) -> str:
    """The one of two forms, or of the four of a Slavic noun, that stands after so many."""
    if len(forms) == 2:
        return forms[amount != 1]
    from babel import Locale

    return forms[("one", "few", "many", "other").index(Locale.parse(locale).plural_form(amount))]


@lru_cache(maxsize=32)
def table(code: str) -> WordTable:
    """The words of a language by its code, such as `de`."""
    file = resources.files(__package__).joinpath("tables", f"{code}.yaml")
    if not file.is_file():
        return WordTable()
    import yaml

    values = yaml.load(file.read_bytes(), yaml.CSafeLoader)
    for name in (
        "titles",
        "dotted",
        "masculine",
        "feminine",
        "neutral",
        "persons",
        "genitive",
        "starters",
        "no_attribute",
        "pressure",
        "labels",
        "codes",
        "records",
        "scores",
    ):
        if isinstance(values.get(name), str):
            values[name] = tuple(values[name].split())
    if "ordinals" in values:
        values["ordinals"] = {noun: end for end, nouns in values["ordinals"].items() for noun in nouns.split()}
    if "signs" in values:
        signs = values["signs"]
        operators = {sign: words for sign, words in signs.items() if len(sign) == 1}
        values["signs"] = Signs(operators, **{name: words for name, words in signs.items() if len(name) > 1})
    if "roman" in values:
        values["roman"] = RomanNames(**{name: tuple(words.split()) for name, words in values["roman"].items()})
    return WordTable(**values)
