"""Korean figures by what they count: 세 명, 스무 살, 열한 시, but 삼 층; ranges, scores and fractions."""

from __future__ import annotations

import re
from collections.abc import Callable

from voxyard.speech.reading.digits import average, by_digits, code_words, one_by_one
from voxyard.speech.reading.languages import CURRENCIES, UNITS, Language
from voxyard.speech.reading.number_words import cardinal, decimal
from voxyard.speech.reading.patterns import ELSEWHERE, bare
from voxyard.speech.reading.tables import table
from voxyard.speech.reading.units import unit_name

Words = Callable[[re.Match[str]], str | None]

_ONES = ("", "한", "두", "세", "네", "다섯", "여섯", "일곱", "여덟", "아홉")
_TENS = ("", "열", "스물", "서른", "마흔", "쉰", "예순", "일흔", "여든", "아흔")
_NATIVE = (  # counters of native numbers
    "개(?!월|년|국|소|사|입|조)|명|살|자리|마리|권|잔|시간|번째|병|송이|그루|켤레|채|척|벌|통|줄|달(?!러)|가지|곳|사람|군데|판|조각|"
    "큰술|작은술|숟갈|숟가락|스푼|정거장|자루|가마|포기|포대|타래|칸|근(?!무|처|본|거)|모(?!델|양|습|두|든|음|터|임|녀|금)|알(?!파|바|코)|접시|꼬치|뿌리|뼘|"
    "다발|묶음|뭉치|캔(?!버)|차례|문제|경기(?!도)|종류|팀|나라|글자|단어|곡|골(?!목|프|반|든|절)|도움|컵|쌍|그릇|봉지|상자|바퀴|배(?!럴|터)|끼|마디|쪽지|모금|걸음|방울|시(?=\\s|$|[^\\w]|까|부|에|쯤|반|정|의|가|는|를|로|이)"
)
_SINO = (  # counters of Sino-Korean numbers, beside those that the rule of plain numbers knows
    "달러|엔|유로|위안|파운드|쪽|페이지|장|조|항|호|학년|반|등|회|차|인|주|개월|개국|개소|개사|포인트|점|평|리터|그램|센티|인치|단계|단|과|"
    "편|부|절|행|열|호선|번지|동|급|종|대|여|천|백|만|억|가|선|시|분|초|년|월|일|원|층|번|위|도|세|킬로|미터|킬로그램|칸|주년|주기|일간|"
    "년대|년간|승|패|무|득점|연승|연패|라운드|세트|쿼터|이닝|박|일차|주차|퍼센트|프로|볼트|와트|기가|메가|톤|킬로미터|밀리"
)
_MOST_NATIVE = {"살": 99, "번째": 99, "시간": 12, "배": 10, "명": 20, "시": 12}
_OTHER_MOST = 20
_SCORE = r"(?:이겼|졌|승리|패|무승부|비겼|역전|스코어|앞서|리드|점수|우승|제압|꺾)"


def patterns(language: Language) -> list[tuple[re.Pattern[str], Words]]:
    """Patterns of figures before their counters, with their words."""
    before = r"(?<![A-Za-z0-9_.,:/+$€£¥₩-])(?<![$€£¥₩] )"
    before += "".join(rf"(?<!\b{each} )" for each in CURRENCIES if len(each) == 3)  # EUR 1,230,000
    part = r"(?:\.(?P<{0}_part>\d+))?"
    whole = r"\d{1,3}(?:,\d{3})+|\d+"
    number = rf"(?P<n>{whole}){part.format('n')}"
    counters = rf"(?P<blank>\s?)(?P<counter>{_NATIVE}|{_SINO})"
    records = "|".join(table("ko").records)
    to = r"\s?[~∼〜～–-]\s?"

    def counted(found: re.Match[str]) -> str:
        screw = re.search(r"(?<![A-Za-z\d])M\d{1,2} ?[xX×] ?$", found.string[max(0, found.start() - 8) : found.start()])
        if screw or _is_falling(found):
            return ELSEWHERE  # M6 x 20, 서울 2-1 부산
        figures, counter = found["n"].replace(",", ""), found["counter"]
        if found["first"] is None and _is_code(found):
            return ELSEWHERE  # 내선 2310번
        ordered = found.string[: found.start()].endswith("제")
        if counter == "번째" and found["first"] is None and figures == "1" and not ordered:
            return f"첫{found['blank'] or ' '}번째"
        last = _figures(figures, found["n_part"], counter, language, ordered=ordered)
        blank = found["blank"] or " " * (last[-1] in _LAST)
        if found["first"] is None:
            return f"{last}{blank}{counter}"
        first = _figures(found["first"].replace(",", ""), found["first_part"], counter, language, ordered=ordered)
        if first[-1] in "한두세네" or first.endswith("스무"):  # 세 개에서 네 개
            return f"{first} {counter}에서 {last}{blank}{counter}"
        return f"{first}에서 {last}{blank}{counter}"

    def between(found: re.Match[str]) -> str:
        if re.search(rf"(?:{records})\s?$", found.string[max(0, found.start() - 12) : found.start()]):
            return ELSEWHERE  # 송장 2024-117
        said = [decimal(found[name].replace(",", ""), found[f"{name}_part"] or "", language) for name in ("first", "n")]
        return (" 대 " if _is_falling(found) else "에서 ").join(said)

    def fraction(found: re.Match[str]) -> str:
        above, below = (cardinal(found[name], language) for name in ("above", "below"))
        whole = cardinal(found["whole"], language) if found["whole"] else ""
        return f"{whole}{_with(whole) + ' ' if whole else ''}{below} 분의 {above}{_after(found)}"

    def score(found: re.Match[str]) -> str:
        return f"{cardinal(found['a'] or found['c'], language)} 대 {cardinal(found['b'] or found['d'], language)}"

    glyphs = {"½": (1, 2), "⅓": (1, 3), "⅔": (2, 3), "¼": (1, 4), "¾": (3, 4)}
    day = r"(?P<{}>[월화수목금토일])"
    return [
        (
            re.compile(r"(?<=\()(?P<first>1[0-9]\d\d)[~∼〜～–-](?P<n>1[0-9]\d\d|20\d\d)(?=\))"),
            lambda found: _lifetime(int(found["first"]), int(found["n"]), language),
        ),
        (_SHORT_PHONE, lambda found: by_digits(found[0], language) or one_by_one(found[0], language)),
        (
            re.compile(rf"(?<![가-힣A-Za-z0-9]){day.format('from')}\s?[~∼〜～–-]\s?{day.format('to')}(?![가-힣])"),
            lambda found: f"{found['from']}요일부터 {found['to']}요일까지",
        ),
        (
            re.compile(r"(?<=[일\d])(?P<a>\s?[(（])(?P<day>[월화수목금토일])(?=[)）])"),
            lambda found: f"{found['a']}{found['day']}요일",
        ),
        (
            re.compile(r"(?:(?<=타율 )|(?<=타율은 )|(?<=타율이 ))0?\.(\d)(\d)(\d)(?!\d)"),
            lambda found: average(found, "할푼리", " ", language),
        ),
        (re.compile(r"(?<![\w.,:/+-])01[016-9] \d{3,4} \d{4}(?!\d)"), lambda found: by_digits(found[0], language)),
        (re.compile(r"(?<=자리 )\d{3,4}(?![\d,.]|[명개석])"), lambda found: one_by_one(found[0], language)),
        *_powers(language),
        *_rates(language, number),
        (  # 간장 2T, 설탕 1t
            re.compile(rf"(?:{_before_spoons()})(?P<n>[1-9]\d?)(?:\.(?P<part>\d))?(?P<spoon>[Tt])(?![A-Za-z0-9])"),
            lambda found: (
                f"{_figures(found['n'], found['part'], '큰술', language, ordered=False)} {_SPOONS[found['spoon']]}"
            ),
        ),
        (  # 버스 1대, 마늘을 5쪽
            re.compile(
                rf"{before}(?P<n>[1-9]|1\d|20)\s?(?=(?P<counter>{'|'.join(table('ko').things)})(?![가-힣]*[년째]))"
            ),
            _of_things,
        ),
        (  # 12/25까지
            re.compile(
                rf"{before}(?P<m>1[0-2]|[1-9])/(?P<d>[12]\d|3[01]|[1-9])(?=\s?[(（][월화수목금토일][)）]|까지|부터)"
            ),
            lambda found: f"{_month(int(found['m']), language)} {cardinal(found['d'], language)}일",
        ),
        (  # 두 번 반복, 열 번 중 아홉 번, 두 장 사면
            re.compile(
                rf"(?<![\d.,-])(?P<n>[1-9]|1\d|20)\s?"
                rf"(?=번(?:{_AGAIN}|\s?중\s\d)|(?<=\d번 중 \d)번|장\s?(?:씩|사|샀|찍|뽑|구매|구입|묶음|남[았은]))"
            ),
            lambda found: f"{native(int(found['n']))} ",
        ),
        (re.compile(r"(?<=\d)\s?[~∼〜～]\s?(?=20\d\d[.-]\d)"), lambda _: "부터 "),
        _large(language),
        (
            re.compile(
                rf"{before}(?P<a>\d{{1,3}}):(?P<b>\d)(?![\d:])|"
                rf"{before}(?P<c>\d{{1,3}})(?P<blank> ?)-(?P=blank)(?P<d>\d{{1,3}})"
                rf"(?:(?=[로의으(]|\s?{_SCORE}|,\s\d{{1,2}}-\d{{1,2}}(?!\d))|(?<=\d-\d\d, \d\d-\d\d)(?=[).,]))"
            ),
            score,
        ),
        (
            re.compile(
                rf"{before}(?:(?P<whole>\d{{1,3}})[ ])?(?P<above>[1-9]\d?)/(?P<below>[2-9]|[1-9]\d)"
                r"(?P<share>\s?[%％])?(?![\d/A-Za-z])"
            ),
            fraction,
        ),
        (
            re.compile(rf"{before}(?P<whole>\d{{1,3}})?\s?(?P<glyph>[{''.join(glyphs)}])(?P<share>\s?[%％])?"),
            lambda found: _glyph(found, glyphs[found["glyph"]], language),
        ),
        (re.compile(rf"{before}(?:(?P<first>{whole}){part.format('first')}{to})?{number}{counters}"), counted),
        (re.compile(rf"{before}(?P<first>{whole}){part.format('first')}{to}{number}(?=\s?[가-힣])"), between),
        (
            re.compile(
                rf"{before}(?P<y>\d{{4}})(?P<sign>[./-])\s?(?P<m>\d{{1,2}})(?P=sign)\s?(?P<d>\d{{1,2}})\.?(?!\d)"
            ),
            _date(language),
        ),
        (
            re.compile(r"(?:(?<=[시분일월년원명개층%℃도])|(?=[~∼〜～]-))\s?[~∼〜～]\s?(?=-?\d|오[전후])"),
            lambda _: "에서 ",
        ),
        (
            re.compile(rf"{before}\d+(?:\s?[+×÷*−-]\s?\d+)+\s?=\s?\d+(?![.,]?\d)"),
            lambda found: _sum(found[0], language),
        ),
        (re.compile(r"(?<![\w-])0\d{1,2}\)\s?\d{3,4}-\d{4}(?!\d)"), lambda found: by_digits(found[0], language)),
        (
            re.compile(rf"{before}{bare(language)}(?=[가-힣])"),
            lambda found: _bare(found, language),
        ),
    ]


def _is_falling(found: re.Match[str]) -> bool:
    """True for two numbers of which the first is the larger one: a score, and no range."""
    first, last = found["first"] or "", found["n"]
    return first.isdigit() and last.isdigit() and "-" in found[0] and int(last) <= int(first) < _MOST_GOALS


def _lifetime(first: int, last: int, language: Language) -> str:
    """루이 16세(1754-1793), which is no phone number."""
    if not 0 < last - first < _LONGEST_LIFE:
        return ELSEWHERE
    return f"{cardinal(str(first), language)}에서 {cardinal(str(last), language)}"


_MOST_GOALS, _LONGEST_LIFE = 200, 120
_SPOONS = {"T": "큰술", "t": "작은술"}


def _before_spoons() -> str:
    """Looks behind a number for what is measured by spoons: 간장 2T."""
    return "|".join(rf"(?<={each} )" for each in table("ko").things["큰술"].split())


def _of_things(found: re.Match[str]) -> str:
    """A native number of what is counted by the noun before it: 버스 두 대, 종이 세 장."""
    things = "|".join(table("ko").things[found["counter"]].split())
    before = found.string[max(0, found.start() - 12) : found.start()]
    return f"{native(int(found['n']))} " if re.search(rf"(?:{things})[은는이가을를도]?\s$", before) else ELSEWHERE


def _rates(language: Language, number: str) -> list[tuple[re.Pattern[str], Words]]:
    """35㎍/㎥, 5,000원/kg: what there is of one comes first in Korean."""
    units = "|".join(map(re.escape, sorted({each for each in UNITS if "/" not in each}, key=len, reverse=True)))
    pattern = rf"(?<![A-Za-z0-9_.,:/+-]){number}\s?(?P<unit>원|명|달러|{units})/(?P<per>{units})(?![A-Za-z0-9²³/])"

    def words(found: re.Match[str]) -> str:
        if f"{found['unit']}/{found['per']}" in UNITS:
            return ELSEWHERE  # km/h has a name
        per = unit_name(language, UNITS[found["per"]], 1)
        unit = unit_name(language, UNITS[found["unit"]], 2) if found["unit"] in UNITS else found["unit"]
        return f"{per}당 {decimal(found['n'].replace(',', ''), found['n_part'] or '', language)}{unit}"

    return [(re.compile(pattern), words)]


_SUPERSCRIPTS = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁻", "0123456789-")


def _powers(language: Language) -> list[tuple[re.Pattern[str], Words]]:
    """10⁶ m², 3 × 10⁸ m/s, 2^10, x²: 십의 육제곱; of metres a square is a unit."""
    units = "|".join(map(re.escape, sorted(UNITS, key=len, reverse=True)))
    pattern = (
        r"(?<![A-Za-z0-9_.,/^])(?:(?P<factor>\d+(?:\.\d+)?)\s?[×xX*·]\s?)?"
        r"(?P<base>\d+(?:\.\d+)?|(?<!\d )[a-ln-zA-LN-Z])"
        rf"(?:(?P<raised>⁻?[⁰¹²³⁴-⁹]+)|\^(?P<plain>-?\d{{1,3}}))(?:\s?(?P<unit>{units}))?(?![A-Za-z0-9^⁻⁰¹²³⁴-⁹])"
    )

    def words(found: re.Match[str]) -> str:
        from babel.units import format_unit

        exponent = found["plain"] or found["raised"].translate(_SUPERSCRIPTS)
        said = {"2": "", "3": "세"}.get(exponent)
        if said is None:
            said = f"{language.minus} " * exponent.startswith("-") + cardinal(exponent.lstrip("-"), language)
        base = _decimal(found["base"], language) if found["base"][0].isdigit() else found["base"]
        said = f"{base}의 {said}제곱"
        if found["factor"]:
            said = f"{_decimal(found['factor'], language)} 곱하기 {said}"
        if not found["unit"]:
            return said
        named = format_unit(2, UNITS[found["unit"]], "long", locale="ko")
        return named.replace("2", f"{said} ", 1) if "2" in named else ELSEWHERE

    return [(re.compile(pattern), words)]


def _decimal(text: str, language: Language) -> str:
    whole, _, part = text.partition(".")
    return decimal(whole, part, language)


def _is_code(found: re.Match[str]) -> bool:
    """True for figures after a word for a code: 비밀번호는 4821."""
    codes = "|".join(code_words("ko"))
    before = found.string[max(0, found.start() - 12) : found.start()]
    return re.search(rf"(?:{codes})[는은이가]?\s?[:：]?\s?$", before) is not None


def _bare(found: re.Match[str], language: Language) -> str | None:
    """A number before a noun; below zero as degrees are said: 영하 칠도."""
    if found["sign"] == "+":
        return None
    if _is_code(found):
        return ELSEWHERE  # 비밀번호 4821을
    words = decimal(re.sub(r"\D", "", found["whole"]), found["part"] or "", language)
    below = "영하" if re.match(r"도(?!\w*각)", found.string[found.end() :]) else language.minus
    return f"{below} {words}" if found["sign"] else words


def _large(language: Language) -> tuple[re.Pattern[str], Words]:
    """30만 km: a unit after a word of a large number."""
    shorts = {each: forms[0] for each, forms in table("ko").counted.items()}
    known = [
        each for each in {**UNITS, **shorts} if each.isalpha() and each.isascii() and (len(each) > 1 or each in shorts)
    ]
    units = "|".join(sorted(known, key=len, reverse=True))
    pattern = re.compile(rf"(?<=\d[만억조천백])\s?(?P<unit>{units})(?![A-Za-z0-9/²³])")
    return pattern, lambda found: shorts.get(found["unit"]) or unit_name(language, UNITS[found["unit"]], 2)


_EMERGENCY = "1(?:1[0-9]|2[0-9]|3[0-9]|82)"
_SHORT_PHONE = re.compile(  # 119에 신고, 1588-1234로
    rf"(?<![\d.,~-])(?:{_EMERGENCY}(?=\s?(?:에|으?로)\s?(?:신고|전화|연락|문의)|,\s[가-힣 ]+{_EMERGENCY}|"
    rf"\s?(?:구급|신고|상황실|소방))|"
    rf"(?:(?<=신고는 )|(?<=전화는 )|(?<=국번 없이 )|(?<=국번없이 )){_EMERGENCY}|1[5-8]\d\d-\d{{4}})(?!\d)"
)
_AGAIN = (  # beginnings of words after 번, with which it tells how often
    r"(?=\s?(?:반복|이나|이상|연속|정도|더\b|씩|갔|했|왔|만에|다녀|울|읽|되풀이|누르|눌|깜빡|깜박|점멸|두드|흔들|섞|헹구|헹궈|"
    r"씻|뒤집|클릭|돌리|돌려|꺾|우승했|우승을|실패|성공했|시도|도전|방문|만나|만났|먹|봤|결혼|이혼|이사했))"
)
_LAST = "한두세네섯곱덟홉열물무른흔쉰순든"
_SIGNS = {"+": "더하기", "=": "은", "×": "곱하기", "*": "곱하기", "÷": "나누기", "−": "빼기", "-": "빼기"}


def _sum(text: str, language: Language) -> str:
    """이 더하기 삼은 오."""
    pieces = [cardinal(each, language) if each.isdigit() else _SIGNS[each] for each in re.findall(r"\d+|[^\s\d]", text)]
    return re.sub("(.) 은 ", lambda each: each[1] + ("은 " if _ends_in_consonant(each[1]) else "는 "), " ".join(pieces))


def _ends_in_consonant(words: str) -> bool:
    return bool((ord(words[-1]) - 0xAC00) % 28)


def _with(words: str) -> str:
    """And, after a syllable with a final consonant or without one: 이와, 일과."""
    return "과" if _ends_in_consonant(words) else "와"


def _after(found: re.Match[str]) -> str:
    """Percent; a blank before a noun, none before a particle: 삼 분의 일의."""
    if found["share"]:
        return " 퍼센트"
    after = found.string[found.end() : found.end() + 1]
    return " " * (after.isalnum() and after not in "의은는이가을를로과와만도에")


def native(number: int) -> str:
    """A number up to 99 as it stands before a counter: 스물한, 스무."""
    if number == 20:
        return "스무"
    return _TENS[number // 10] + _ONES[number % 10]


def _figures(digits: str, part: str | None, counter: str, language: Language, *, ordered: bool) -> str:
    number = int(digits)
    if counter == "월" and not part:
        return _month(number, language).removesuffix("월")
    counts = re.fullmatch(_NATIVE.replace("(?=\\s", "(?:|\\s"), counter) is not None and not ordered
    if counts and not part and 0 < number <= _MOST_NATIVE.get(counter, _OTHER_MOST):
        return native(number)
    return decimal(digits, part or "", language)


def _glyph(found: re.Match[str], parts: tuple[int, int], language: Language) -> str:
    whole = cardinal(found["whole"], language) if found["whole"] else ""
    said = f"{cardinal(str(parts[1]), language)} 분의 {cardinal(str(parts[0]), language)}"
    return f"{whole}{_with(whole) + ' ' if whole else ''}{said}{_after(found)}"


def _month(number: int, language: Language) -> str:
    return {6: "유월", 10: "시월"}.get(number, f"{cardinal(str(number), language)}월")


def _date(language: Language) -> Words:
    def words(found: re.Match[str]) -> str | None:
        month, day = int(found["m"]), int(found["d"])
        if not (1 <= month <= 12 and 1 <= day <= 31):
            return None
        return f"{cardinal(found['y'], language)}년 {_month(month, language)} {cardinal(str(day), language)}일"

    return words
