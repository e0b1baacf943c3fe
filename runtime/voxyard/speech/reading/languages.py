"""Rules of each language beside num2words and Babel: separators, agreement, words of dates and times.

Every language here was read through by a person; a language that is not here is left as it is written.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass, field

Rules = tuple[tuple[str, str], ...]  # (pattern, replacement)


@dataclass(frozen=True)
class Language:
    """Rules of one language.

    `number_words` is the language of num2words; None where it has none, and figures stay figures. `spaced` is False
    where words have no blanks between them. `scripts` are first words of Unicode's names of its letters.
    """

    locale: str  # of Babel
    number_words: str | None
    decimal: str
    groups: str
    point: str = ""
    minus: str = ""
    to: str = ""  # between two figures of a range
    scripts: tuple[str, ...] = ("LATIN",)
    spaced: bool = True
    comma: str = ", "  # between groups of digits that are read one by one
    counts_years: bool = False  # four figures alone are a year: nineteen ninety-nine
    months: bool = False  # figures before and after a month's name are read as a date
    numeric_date: str = ""  # signs between day, month and year; "" where their order is ambiguous
    money_and: str = ""  # between euros and cents
    feminine: str = ""  # nouns, from their beginning
    masculine_forms: Rules = ()  # of a number before a noun
    feminine_forms: Rules = ()
    names: dict[str, tuple[str, str]] = field(default_factory=dict)  # currency → pattern in Babel's name, replacement
    scales: dict[str, dict[str, str]] = field(default_factory=dict)  # short for a million → its form by plural
    magnitudes: str = ""  # words for a million and the like, with which an amount goes on
    units: dict[str, str] = field(default_factory=dict)  # symbols that only this language has
    alone: str = ""  # words before which a number stands for itself, not for so many of them
    masculine_ends: str = ""  # of nouns, by which their gender is known; without these it is known of units alone
    feminine_ends: str = ""

    def is_feminine(self, noun: str) -> bool:
        """True where the noun wants feminine numbers."""
        return bool(self.feminine) and re.match(self.feminine, noun.strip(), re.IGNORECASE) is not None


_BLANKS = " \N{NO-BREAK SPACE}\N{NARROW NO-BREAK SPACE}\N{THIN SPACE}"
_PLURALS = ("one", "few", "many", "other")

LANGUAGES: dict[str, Language] = {
    "en": Language(
        "en",
        "en",
        ".",
        ",",
        "point",
        "minus",
        "to",
        counts_years=True,
        months=True,
        names={"USD": (r"^US ", ""), "GBP": (r"^British ", ""), "JPY": (r"^Japanese ", "")},
        magnitudes="thousand|million|billion|trillion",
    ),
    "de": Language(
        "de",
        "de",
        ",",
        ".",
        "Komma",
        "minus",
        "bis",
        counts_years=True,
        months=True,
        numeric_date=".",
        feminine=r"(?:Milli)?sekunde|minute|stunde|meile|tonne|unze|woche|krone|türkische|rupie|kilowattstunde|milli(?:on|arde)",
        masculine_forms=((r"eins$", "ein"),),
        feminine_forms=((r"eins$", "eine"),),
        names={"USD": (r"^US-", ""), "GBP": (r"^Britische[sn]? ", ""), "JPY": (r"^Japanische[rn]? ", "")},
        magnitudes="Tausend|Million|Millionen|Milliarde|Milliarden|Billion|Billionen",
        scales={
            "Tsd.": {"one": "tausend", "other": "tausend"},
            "Mio.": {"one": "Million", "other": "Millionen"},
            "Mrd.": {"one": "Milliarde", "other": "Milliarden"},
            "Bio.": {"one": "Billion", "other": "Billionen"},
        },
        alone="und|oder|bis|mal|von|zu|in|auf|mit|ist|gegen|plus|minus",
    ),
    "fr": Language(
        "fr",
        "fr",
        ",",
        _BLANKS,
        "virgule",
        "moins",
        "à",
        months=True,
        numeric_date="/.-",
        feminine=r"(?:milli)?seconde|minute|heure|livre|tonne|once|semaine|couronne|roupie",
        feminine_forms=((r"\bun$", "une"),),
        names={"USD": (r" des États-Unis$", ""), "GBP": (r" sterling$", ""), "JPY": (r" japonais$", "")},
        magnitudes="mille|million|millions|milliard|milliards|billion|billions",
        alone="et|ou|à|aux?|sur|de|du|des|d|en|dans|pour|par|contre|est|plus|moins"
        "|jusque|entre|quand|mais|que|selon|sans|après|pendant|où|comme|si|ni|furent|sont|a|ont|avait"
        "|sera|fait|déjà|encore|aussi|très|presque|tandis|parce|qui|quel|dont|ce|cette|ces|sous|sauf"
        "|ensuite|alors|avant|toujours|jamais|ici|là|demain|hier|seulement|bien|mal|peut|peuvent|doit|fit"
        "|dit|gagna|perdit|arriva|sortit|passa|resta|était|il|elle|ils|nous|vous|leur|son|sa|ses|un|une"
        "|[a-zéèê]+(?:èrent|aient|irent)",
        units={"Ko": "digital-kilobyte", "Mo": "digital-megabyte", "Go": "digital-gigabyte", "To": "digital-terabyte"},
    ),
    "es": Language(
        "es",
        "es",
        ",",
        "." + _BLANKS,
        "coma",
        "menos",
        "a",
        months=True,
        numeric_date="/.-",
        money_and="con",
        feminine=r"libra|hora|milla|tonelada|onza|yarda|pulgada|semana|lira|corona|rupia|hectárea",
        masculine_forms=((r"veintiuno$", "veintiún"), (r"\buno$", "un")),
        feminine_forms=((r"uno$", "una"), (r"ientos\b", "ientas")),
        names={"USD": (r" estadounidenses?$", ""), "GBP": (r" esterlinas?$", ""), "JPY": (r" japon[eé]s(?:es)?$", "")},
        magnitudes="mil millones|mil|millón|millones|billón|billones",
        alone="del?|y|o|al?|en|por|para|con|contra|es|fue|era|hubo|hay|más|menos|[a-zñ]+(?:aron|ieron|jeron)|se|no|la|el|los|las"
        "|hasta|desde|entre|cuando|pero|que|según|sin|tras|durante|mediante|donde|como|si|ni|fueron|son"
        "|están|está|ha|han|había|será|hace|ya|aún|todavía|también|tampoco|muy|casi|mientras|porque"
        "|aunque|quien|cual|cuyo|este|esta|esos|ante|bajo|hacia|salvo|excepto|incluso|además|luego"
        "|entonces|antes|después|siempre|nunca|aquí|allí|hoy|ayer|solo|sólo|bien|tiene|tienen|puede"
        "|pueden|debe|hizo|dijo|dice|estuvo|estaba|tenía|va|van|le|les|lo|me|te|nos|su|sus|mi|un|una|unos"
        "|[a-záéíóú]{3,}mente|[a-zñü]+ó",
        masculine_ends="os?|dólares|hombres|meses|países|habitantes",
        feminine_ends="as?|ción|ciones",
    ),
    "it": Language(
        "it",
        "it",
        ",",
        "." + _BLANKS,
        "virgola",
        "meno",
        "a",
        months=True,
        numeric_date="/.-",
        money_and="e",
        feminine=r"libbr|or[ae]\b|tonnellat|onc[ei]|sterlin|lir[ae]|coron|rupi|iard",
        masculine_forms=((r"^uno$", "un"),),
        feminine_forms=((r"^uno$", "una"),),
        names={
            "USD": (r" statunitens[ei]$", ""),
            "GBP": (r" britannic(?:a|he)$", ""),
            "JPY": (r" giappones[ei]$", ""),
        },
        magnitudes="mila|milione|milioni|miliardo|miliardi|bilione|bilioni|trilione|trilioni",
        alone="d[ia]|d[ae](?:l|i|ll[aeo]|gli)|ed?|o|ad?|a(?:l|i|ll[aeo]|gli)|in|n?e(?:l|i|ll[aeo])|per|con|s?u(?:l|i|ll[aeo])?|contro|è|più|meno|non"
        "|fino|tra|fra|quando|ma|che|senza|dopo|durante|mediante|dove|come|se|né|furono|sono|stanno|sta"
        "|ha|hanno|aveva|sarà|fa|già|ancora|anche|neppure|molto|quasi|mentre|perché|sebbene|chi|quale|cui"
        "|questo|questa|quelli|sopra|sotto|salvo|tranne|inoltre|poi|allora|prima|sempre|mai|qui|lì|domani"
        "|oggi|ieri|solo|possono|deve|fece|disse|dice|vinse|perse|uscì|stava|va|vanno|venne|gli|lo|mi|ti"
        "|ci|suo|sua|mio|un|una"
        "|[a-z]{3,}mente|[a-z]+ò",
        masculine_ends="o|[b-df-hj-np-tv-zèì]",  # un hotel, un lunedì
        feminine_ends="a|zione",
    ),
    "pt": Language(
        "pt",
        "pt_BR",
        ",",
        "." + _BLANKS,
        "vírgula",
        "menos",
        "a",
        months=True,
        numeric_date="/.-",
        money_and="e",
        feminine=r"libra|hora|milha|tonelada|onça|jarda|polegada|lira|coroa|rupia",
        feminine_forms=((r"\bum(?=$| mil\b)", "uma"), (r"\bdois\b", "duas"), (r"(z|c|nh)entos\b", r"\1entas")),
        names={
            "USD": (r" americanos?$", ""),
            "BRL": (r" brasileiros?$| brasileiro$", ""),
            "GBP": (r" esterlinas?$", ""),
            "JPY": (r" japoneses$| japonês$", ""),
        },
        magnitudes="mil|milhão|milhões|bilhão|bilhões|bilião|biliões|trilhão|trilhões",
        alone="d[eao]s?|e|ou|aos?|às?|a|em|n[ao]s?|x|por|para|com|contra|é|foi|era|houve|há|mais|menos|[a-zç]+(?:aram|eram|iram)|se|não|os?|as"
        "|até|desde|entre|quando|mas|que|sem|após|durante|mediante|onde|como|nem|foram|são|estão|está|tem"
        "|têm|havia|será|faz|já|ainda|também|tampouco|muito|quase|enquanto|porque|embora|quem|qual|cujo"
        "|este|esta|esses|sobre|ante|sob|salvo|exceto|inclusive|além|logo|então|antes|depois|sempre|nunca"
        "|aqui|ali|amanhã|hoje|ontem|só|pode|podem|deve|fez|disse|diz|perdeu|esteve|estava|tinha|vai|vão"
        "|veio|lhe|lhes|me|te|seu|sua|meu|um|uma|uns"
        "|[a-zãçáéíóú]{3,}mente|[a-zç]+(?:ou|iu)",
        masculine_ends="os?|reais|dólares|homens|meses|países|habitantes",
        feminine_ends="as?|ção|ções",
    ),
    "nl": Language(
        "nl",
        "nl",
        ",",
        ".",
        "komma",
        "min",
        "tot",
        counts_years=True,
        months=True,
        numeric_date="-/",
        names={"USD": (r"^Amerikaanse ", ""), "GBP": (r"^Britse ", ""), "JPY": (r"^Japanse ", "")},
        magnitudes="duizend|miljoen|miljard|biljoen",
        scales={
            "mln": dict.fromkeys(("one", "other"), "miljoen"),
            "mld": dict.fromkeys(("one", "other"), "miljard"),
        },
    ),
    "pl": Language(
        "pl",
        "pl",
        ",",
        "." + _BLANKS,
        "przecinek",
        "minus",
        "–",  # a pause, for which no case is wanted
        months=True,
        numeric_date=".",
        feminine=r"mil[aei]?\b|(?:mili)?sekund|minut|godzin|ton[ay]?\b|uncj|lir|koron|hryw|rupi|kilowatogodzin",
        feminine_forms=((r"^jeden$", "jedna"), (r"\bdwa$", "dwie")),
        names={
            "USD": (r" amerykańsk\w+$", ""),
            "GBP": (r" szterling\w*$", ""),
            "JPY": (r" japońsk\w+$", ""),
            "PLN": (r" polsk\w+$", ""),
        },
        scales={
            "tys.": dict(zip(_PLURALS, ("tysiąc", "tysiące", "tysięcy", "tysiąca"), strict=True)),
            "mln": dict(zip(_PLURALS, ("milion", "miliony", "milionów", "miliona"), strict=True)),
            "mld": dict(zip(_PLURALS, ("miliard", "miliardy", "miliardów", "miliarda"), strict=True)),
        },
        alone="i|lub|do|w|na|z|od|po|plus|minus",
        masculine_ends="[bcćdfghjklłmnńprsśtwzźż]",
        feminine_ends="a",
    ),
    "ru": Language(
        "ru",
        "ru",
        ",",
        _BLANKS,
        "запятая",
        "минус",
        scripts=("CYRILLIC",),
        months=True,
        numeric_date=".",
        feminine=r"мил[яьи]|минут|(?:милли)?секунд|тонн|унци|\w*\s*лир|\w*\s*крон|рупи|гривн|иен|вон|тысяч",
        names={
            "USD": (r" США$", ""),
            "GBP": (r"^британск\w+ ", ""),
            "JPY": (r"^японск\w+ ", ""),
            "RUB": (r"^российск\w+ ", ""),
        },
        scales={
            "тыс.": dict(zip(_PLURALS, ("тысяча", "тысячи", "тысяч", "тысячи"), strict=True)),
            "млн": dict(zip(_PLURALS, ("миллион", "миллиона", "миллионов", "миллиона"), strict=True)),
            "млрд": dict(zip(_PLURALS, ("миллиард", "миллиарда", "миллиардов", "миллиарда"), strict=True)),
            "трлн": dict(zip(_PLURALS, ("триллион", "триллиона", "триллионов", "триллиона"), strict=True)),
        },
        alone="и|или|в|на|из|по|до|плюс|минус",
        masculine_ends="[бвгджзйклмнпрстфхцчшщ]",
        feminine_ends="[аяыи]",
        units={
            "км": "length-kilometer",
            "м": "length-meter",
            "см": "length-centimeter",
            "мм": "length-millimeter",
            "кг": "mass-kilogram",
            "мг": "mass-milligram",
            "км/ч": "speed-kilometer-per-hour",
            "м/с": "speed-meter-per-second",
            "мл": "volume-milliliter",
            "га": "area-hectare",
            "кВт": "power-kilowatt",
            "МБ": "digital-megabyte",
            "ГБ": "digital-gigabyte",
            "ТБ": "digital-terabyte",
            "мин": "duration-minute",
            "сек": "duration-second",
        },
    ),
    "tr": Language(
        "tr",
        "tr",
        ",",
        ".",
        "virgül",
        "eksi",
        "–",  # a pause: on – on iki Mayıs
        months=True,
        numeric_date="./",
        names={
            "USD": (r"^ABD doları$", "dolar"),
            "GBP": (r"^İngiliz sterlini$", "sterlin"),
            "JPY": (r"^Japon yeni$", "yen"),
            "TRY": (r"^Türk lirası$", "lira"),
        },
        magnitudes="bin|milyon|milyar|trilyon",
    ),
    "ja": Language(
        "ja",
        "ja",
        ".",
        ",",
        "点",
        "マイナス",
        "から",
        scripts=("CJK", "HIRAGANA", "KATAKANA", "KATAKANA-HIRAGANA"),
        spaced=False,
        names={"USD": (r"^米", ""), "GBP": (r"^英国", "")},
    ),
    "ko": Language(
        "ko",
        "ko",
        ".",
        ",",
        "점",
        "마이너스",
        "에서",
        scripts=("HANGUL",),
        names={
            "USD": (r"^미국 ", ""),
            "GBP": (r"^영국 ", ""),
            "KRW": (r"^대한민국 ", ""),
            "JPY": (r"^일본 엔화$", "엔"),
        },
    ),
    "fa": Language(
        "fa",
        "fa",
        ".",
        ",،",
        "ممیز",
        "منفی",
        "تا",
        scripts=("ARABIC",),
        comma="، ",
        money_and="و",
        names={
            "USD": (r" آمریکا$", ""),
            "GBP": (r" بریتانیا$", ""),
            "JPY": (r" ژاپن$", ""),
            "IRR": (r" ایران$", ""),
        },
        magnitudes="هزار|میلیون|میلیارد|تریلیون",
    ),
    "hi": Language(
        "hi",
        None,
        ".",
        ",",
        minus="माइनस",
        to="से",
        scripts=("DEVANAGARI",),
        names={
            "USD": (r"^यूएस ", ""),
            "INR": (r"^भारतीय ", ""),
            "GBP": (r"^ब्रिटिश | स्टर्लिंग$", ""),
            "JPY": (r"^जापानी ", ""),
        },
        magnitudes="हज़ार|हजार|लाख|करोड़|करोड़|अरब|खरब",
    ),
    "zh": Language(
        "zh", "zh", ".", ",", "点", "负", "到", scripts=("CJK",), spaced=False, names={"CNY": (r"^人民币$", "元")}
    ),
}

UNITS: dict[str, str] = {
    "km": "length-kilometer",
    "m": "length-meter",
    "cm": "length-centimeter",
    "mm": "length-millimeter",
    "ft": "length-foot",
    "mi": "length-mile",
    "km/h": "speed-kilometer-per-hour",
    "m/s": "speed-meter-per-second",
    "m/s²": "acceleration-meter-per-square-second",
    "mph": "speed-mile-per-hour",
    "kg": "mass-kilogram",
    "g": "mass-gram",
    "mg": "mass-milligram",
    "lb": "mass-pound",
    "lbs": "mass-pound",
    "oz": "mass-ounce",
    "l": "volume-liter",
    "L": "volume-liter",
    "ml": "volume-milliliter",
    "mL": "volume-milliliter",
    "°C": "temperature-celsius",
    "ºC": "temperature-celsius",
    "°F": "temperature-fahrenheit",
    "° C": "temperature-celsius",
    "° F": "temperature-fahrenheit",
    "m²": "area-square-meter",
    "km²": "area-square-kilometer",
    "ha": "area-hectare",
    "m³": "volume-cubic-meter",
    "kB": "digital-kilobyte",
    "KB": "digital-kilobyte",
    "MB": "digital-megabyte",
    "GB": "digital-gigabyte",
    "TB": "digital-terabyte",
    "Hz": "frequency-hertz",
    "kHz": "frequency-kilohertz",
    "MHz": "frequency-megahertz",
    "GHz": "frequency-gigahertz",
    "W": "power-watt",
    "kW": "power-kilowatt",
    "MW": "power-megawatt",
    "kWh": "energy-kilowatt-hour",
    "GW": "power-gigawatt",
    "kcal": "energy-kilocalorie",
    "kJ": "energy-kilojoule",
    "mA": "electric-milliampere",
    "Ω": "electric-ohm",
    "kPa": "pressure-kilopascal",
    "MPa": "pressure-megapascal",
    "mbar": "pressure-millibar",
    "mmHg": "pressure-millimeter-ofhg",
    "Nm": "torque-newton-meter",
    "N·m": "torque-newton-meter",
    "Mbit": "digital-megabit",
    "Gbit": "digital-gigabit",
    "PB": "digital-petabyte",
    "dpi": "graphics-dot-per-inch",
    "µg": "mass-microgram",
    "μg": "mass-microgram",
    "µs": "duration-microsecond",
    "μs": "duration-microsecond",
    "ns": "duration-nanosecond",
    "cl": "volume-centiliter",
    "hl": "volume-hectoliter",
    "cm²": "area-square-centimeter",
    "cm³": "volume-cubic-centimeter",
    "ft²": "area-square-foot",
    "m2": "area-square-meter",
    "km2": "area-square-kilometer",
    "km³": "volume-cubic-kilometer",
    "km3": "volume-cubic-kilometer",
    "ft³": "volume-cubic-foot",
    "in³": "volume-cubic-inch",
    "mi³": "volume-cubic-mile",
    "yd³": "volume-cubic-yard",
    "in²": "area-square-inch",
    "mi²": "area-square-mile",
    "yd²": "area-square-yard",
    "cm2": "area-square-centimeter",
    "m3": "volume-cubic-meter",
    "cm3": "volume-cubic-centimeter",
    "dl": "volume-deciliter",
    "dL": "volume-deciliter",
    "mmol/L": "concentr-millimole-per-liter",
    "mmol/l": "concentr-millimole-per-liter",
    "dm": "length-decimeter",
    "µm": "length-micrometer",
    "μm": "length-micrometer",
    "nm": "length-nanometer",
    "V": "electric-volt",
    "hPa": "pressure-hectopascal",
    "ms": "duration-millisecond",
    "s": "duration-second",
    "min": "duration-minute",
    "h": "duration-hour",
    "%": "concentr-percent",
    "％": "concentr-percent",
    "‰": "concentr-permille",
}
UNITS |= {each[:-1] + {"²": "^2", "³": "^3"}[each[-1]]: unit for each, unit in UNITS.items() if each[-1] in "²³"}
UNITS |= {each.replace("k", "K", 1): UNITS[each] for each in ("km", "kg", "km/h", "km²", "km2")}
UNITS |= {each.upper(): UNITS[each] for each in ("km", "kg", "km/h")}
"""Symbol of a unit → its name in CLDR, of which Babel knows the forms in each language."""

_SQUARES = {
    unicodedata.normalize("NFKC", sign).replace("\N{DIVISION SLASH}", "/"): sign
    for sign in (*map(chr, range(0x3371, 0x33E0)), "℃", "℉", "ℓ")
}  # km → ㎞
UNITS |= {
    square + symbol.removeprefix(letters): unit
    for symbol, unit in UNITS.items()
    for letters, square in _SQUARES.items()
    if symbol == letters or symbol.startswith((f"{letters}/", f"{letters}h", f"{letters}Hg"))
}

NO_LETTERS = "%％‰°º"
"""Beginnings of units' symbols that are no letters, nor a square of them."""

CURRENCIES: dict[str, str] = {
    "€": "EUR",
    "$": "USD",
    "US$": "USD",
    "US-$": "USD",
    "R$": "BRL",
    "£": "GBP",
    "¥": "JPY",
    "￥": "JPY",
    "₽": "RUB",
    "₺": "TRY",
    "₩": "KRW",
    "₹": "INR",
    "C$": "CAD",
    "A$": "AUD",
    "HK$": "HKD",
    "CA$": "CAD",
    "AU$": "AUD",
    "NZ$": "NZD",
    "MX$": "MXN",
    "S$": "SGD",
    "₪": "ILS",
    "₴": "UAH",
    "₫": "VND",
    "฿": "THB",
    "﷼": "IRR",
    "zł": "PLN",
    "руб.": "RUB",
    **{
        code: code
        for code in (
            "EUR",
            "USD",
            "GBP",
            "JPY",
            "CHF",
            "CNY",
            "CAD",
            "AUD",
            "RUB",
            "TRY",
            "KRW",
            "INR",
            "PLN",
            "SEK",
            "NOK",
            "DKK",
            "IRR",
            "NZD",
            "MXN",
            "SGD",
            "HKD",
            "BRL",
            "ZAR",
            "CZK",
            "HUF",
        )
    },
}
"""Sign or code of a currency → its ISO 4217 code."""
