"""Sentence ends in the languages that Bark speaks: a row is a text with a ¦ behind each sentence but the last."""

from __future__ import annotations

from itertools import pairwise

import pytest

from voxyard.speech.text.sentences import sentence_ends

GERMAN = [
    "Das ist gut. ¦Das ist schlecht.",
    "Dr. Müller kommt um 8 Uhr. ¦Er bringt Kuchen mit.",
    "Viele Tiere, z.B. Hunde, bellen. ¦Katzen nicht.",
    "Viele Tiere, z. B. Hunde, bellen. ¦Katzen nicht.",
    "Äpfel, Birnen usw. gibt es im Laden. ¦Wir gehen hin.",
    "Das heißt d.h. nichts. ¦Oder doch?",
    "Am 1. Januar 2024 beginnt das Jahr. ¦Es hat 366 Tage.",
    "Der Vertrag gilt ab 1.1.2024. ¦Er endet nie.",
    "Es kostet 1.000,50 € im Jahr. ¦Das ist viel.",
    "Siehe Abb. 3 auf S. 12. ¦Dort steht alles.",
    "„Komm her!“, rief sie. ¦Er kam.",
    "»Wer ist da?« ¦Niemand antwortete.",
    "Prof. Dr. Schmidt hält den Vortrag. ¦Er dauert eine Stunde.",
    "Er wartete … und ging. ¦Sie blieb.",
    "Die Fa. Meier GmbH liefert. ¦Wir zahlen.",
    "Karl V. war Kaiser. ¦Er starb 1558.",
    "Hr. Meier und Fr. Schulze kommen. ¦Wir warten.",
    "Das sind ca. 30 Leute. ¦Bzw. mehr.",
    "Im 19. Jahrhundert war es so. ¦Heute nicht.",
    "Der 2. Weltkrieg endete 1945. ¦Dann war Frieden.",
    "Ludwig XIV. herrschte lange. ¦Er starb alt.",
    "Er wohnt in der Hauptstr. 5. ¦Sie nicht.",
    "Um 20.15 Uhr geht es los. ¦Komm.",
    "Bach ist von dieser Art. ¦Man hört es.",
]
ENGLISH = [
    "Write in C#, .NET and Java. ¦Then (.NET) is done. ¦Use .NET.",
    "It is late. ¦We go home.",
    "Dr. Smith is here. ¦He waits.",
    "Mr. and Mrs. Brown came at 5 p.m. on Monday. ¦They left soon.",
    "We met at 5 p.m. yesterday. ¦It rained.",
    "Fruit, e.g. apples, is cheap. ¦Meat is not.",
    "Use a tool, i.e. a hammer. ¦Then rest.",
    "The U.S. Army was there. ¦It left.",
    "Room No. 5 is free. ¦Take it.",
    "See Fig. 3 and pp. 4–6. ¦Then stop.",
    "Pi is 3.14 or so. ¦Euler is 2.71.",
    "It costs $1,250.75 today. ¦Buy it!",
    "Version 2.0.1 is out. ¦Get it now.",
    "J. R. R. Tolkien wrote it. ¦Many read it.",
    "George W. Bush spoke. ¦They listened.",
    "“Stop!” he said. ¦“Why?” she asked.",
    '"Is it you?" he said. ¦"It is."',
    "“I am here.” ¦She looked up.",
    "He said, “Go home.” ¦Then he left.",
    "Wait... what is it? ¦Nothing.",
    "Well … perhaps. ¦Let us see.",
    "What?! ¦No way!",
    "Look at https://example.com/a.b?c=d. ¦It is good.",
    "Visit www.example.org today. ¦It is free.",
    "Write to jane.doe@example.com now. ¦She answers.",
    "St. Mary's Church is old. ¦It was built in 1200.",
    "It was Smith vs. Jones. ¦Jones won.",
    "Acme Inc. makes anvils. ¦They are heavy.",
    "He works at Acme Ltd. in York. ¦She does not.",
    "It ended in Jan. 2020. ¦We know why.",
    "He has a Ph.D. in physics. ¦She has two.",
    "(It was late.) ¦We slept.",
    "He left (it was late). ¦We slept.",
    "Yes. ¦No. ¦Maybe.",
    "Chapter 1. ¦It was a dark night.",
    "Gen. Lee met Col. Fox. ¦They talked.",
    "The file is readme.txt. ¦Open it.",
    "He ran at 9.8 m/s. ¦Then he fell.",
    "It is 5 o'clock. ¦Time for tea.",
    "He cooks, cleans, etc. every day. ¦She rests.",
    "Yahoo! is a firm. ¦It is old.",
    "We met at 5 p.m. ¦She left.",
    "Apples, pears, etc. ¦They are good.",
    "He said no. ¦Then he left.",
    "You and I. ¦They know.",
    "Jean-Paul and J.-P. Smith came. ¦They sat.",
    "“Stop!” John Smith said. ¦He ran.",
    "“Wait…” ¦She stopped.",
    "“Go.” ¦“No.” ¦“Yes!”",
    "He was born on Jan. 5, 1920. ¦He died.",
    "Martin Luther King Jr. was there. ¦He spoke.",
    "Washington, D.C. is big. ¦It is hot.",
]
SPANISH = [
    "Hace frío. ¦Vamos a casa.",
    "¿Qué hora es? ¦Son las dos.",
    "¡Hola! ¦¿Cómo estás?",
    "El Sr. García vive aquí. ¦Es alto.",
    "La Dra. López llega hoy. ¦Viene en tren.",
    "Cuesta 1.000,50 euros. ¦Es caro.",
    "Son las 3 p. m. en Madrid. ¦Llueve.",
    "EE. UU. es un país grande. ¦Tiene 50 estados.",
    "Vea la pág. 12 del libro. ¦Allí está.",
    "«¿Vienes?», dijo ella. ¦Él calló.",
    "Bueno… no sé. ¦Quizá mañana.",
    "Vio el mar. ¦Era azul.",
    "Todo va bien. ¦Gracias.",
    "—¿Vienes? —dijo ella. ¦Él calló.",
    "El n.º 5 es mío. ¦Tómalo.",
]
FRENCH = [
    "Il fait froid. ¦Nous rentrons.",
    "M. Dupont est là. ¦Il attend.",
    "Mme Durand et le Dr. Petit arrivent. ¦Ils mangent.",
    "« Tu viens ? » demanda-t-elle. ¦Il se tut.",
    "Où est-il ? ¦Je ne sais pas.",
    "Attention ! ¦C'est chaud.",
    "Il y a des fruits, etc. dans le sac. ¦Prends-le.",
    "Cela coûte 3,50 € par jour. ¦C'est peu.",
    "J.-P. Martin écrit. ¦On le lit.",
    "Voir p. 12 et fig. 3. ¦C'est clair.",
    "Bon… je ne sais pas. ¦Peut-être demain.",
    "« C'est fini. » ¦Il partit.",
    "Né en 50 av. J.-C. en Grèce. ¦Il mourut à Rome.",
    "C’est de l’art. ¦Il est beau.",
]
HINDI = [
    "यह अच्छा है। ¦वह बुरा है।",
    "तुम कहाँ हो? ¦मैं घर पर हूँ।",
    "रुको! ¦वह आ रहा है।",
    "डॉ. शर्मा आए हैं। ¦वे बैठे हैं।",
    "श्री. वर्मा घर गए। ¦वे थके थे।",
    "मूल्य 3.14 है। ¦यह सही है।",
    "“तुम कौन हो?” उसने पूछा। ¦मैं चुप रहा।",
    "वह बोला… फिर रुक गया। ¦सब चुप थे।",
    "राम घर गया॥ ¦सीता भी गई॥",
    "ए. पी. जे. अब्दुल कलाम आए। ¦वे बोले।",
    "कीमत रु. 500 है। ¦सस्ता है।",
]
ITALIAN = [
    "Fa freddo. ¦Andiamo a casa.",
    "Il sig. Rossi è qui. ¦Aspetta.",
    "Il Dott. Bianchi e la Sig.ra Verdi arrivano. ¦Mangiano.",
    "Che ora è? ¦Sono le due.",
    "Costa 1.000,50 euro. ¦È caro.",
    "Vedi pag. 12 del libro. ¦È chiaro.",
    "«Vieni?» disse lei. ¦Lui tacque.",
    "Beh… non so. ¦Forse domani.",
    "Mele, pere ecc. sono qui. ¦Prendile.",
    "Non lo so. ¦Forse domani.",
    "Lui va. ¦Lei resta.",
    "— Vieni? — disse. ¦Lui tacque.",
]
JAPANESE = [
    "今日は寒いです。¦家に帰ります。",
    "何時ですか？¦二時です。",
    "止まれ！¦危ない。",
    "「はい。」と彼は言った。¦彼女は笑った。",
    "「行くよ」と言った。¦雨が降った。",
    "価格は3.14円です。¦安いです。",
    "バージョン2.0が出ました。¦使ってください。",
    "ええと…わかりません。¦明日また来ます。",
    "本当ですか!? ¦はい。",
    "「どこへ？」¦「家へ。」",
    "（雨だった。）¦彼は寝た。",
    "A社は3.5%増えた。¦B社は減った。",
]
KOREAN = [
    "오늘은 춥습니다. ¦집에 갑니다.",
    "몇 시입니까? ¦두 시입니다.",
    "멈춰! ¦위험해.",
    "원주율은 3.14입니다. ¦맞습니다.",
    "“누구세요?” 그가 물었다. ¦아무도 없었다.",
    "글쎄… 모르겠습니다. ¦내일 봅시다.",
    "2024. 1. 1. 에 시작합니다. ¦좋습니다.",
    "김 씨는 U.S. 군인입니다. ¦키가 큽니다.",
    "“가자.”라고 말했다. ¦모두 갔다.",
    "“가자!” 라고 말했다. ¦모두 갔다.",
    "네. ¦아니요.",
]
POLISH = [
    "Jest zimno. ¦Idziemy do domu.",
    "Dr. Kowalski czeka. ¦Jest zmęczony.",
    "Prof. Nowak mówi. ¦Słuchamy.",
    "Owoce, np. jabłka, są tanie. ¦Mięso nie.",
    "Która godzina? ¦Jest druga.",
    "Ul. Długa 5 jest blisko. ¦Idź prosto.",
    "To było w 1999 r. w Krakowie. ¦Padał deszcz.",
    "Kosztuje 3,50 zł za sztukę. ¦To mało.",
    "„Chodź tu!” – zawołała. ¦Przyszedł.",
    "No cóż… nie wiem. ¦Może jutro.",
    "Chleb, mleko itd. są w sklepie. ¦Kup je.",
    "— Kto tam? — zapytał. ¦Nikt nie odpowiedział.",
    "O godz. 5.30 wstał. ¦Było zimno.",
]
PORTUGUESE = [
    "Está frio. ¦Vamos para casa.",
    "O Sr. Silva está aqui. ¦Ele espera.",
    "A Dra. Costa e o Prof. Lima chegam. ¦Eles comem.",
    "Que horas são? ¦São duas.",
    "Custa 1.000,50 euros. ¦É caro.",
    "Veja a pág. 12 do livro. ¦É claro.",
    "“Vens?”, disse ela. ¦Ele calou-se.",
    "Bem… não sei. ¦Talvez amanhã.",
    "Frutas, pão etc. estão aqui. ¦Pegue.",
    "— Vens? — disse ela. ¦Ele calou-se.",
    "O séc. XX foi longo. ¦Acabou.",
]
RUSSIAN = [
    "Холодно. ¦Идём домой.",
    "Который час? ¦Два часа.",
    "Стой! ¦Опасно.",
    "А. С. Пушкин родился в Москве. ¦Его любят.",
    "Он жил на ул. Ленина. ¦Там тихо.",
    "Это было в 1999 г. в Москве. ¦Шёл снег.",
    "Хлеб, молоко и т. д. лежат здесь. ¦Бери.",
    "Например, т.е. никогда. ¦Вот так.",
    "Проф. Иванов говорит. ¦Мы слушаем.",
    "Цена 3,14 рубля. ¦Это мало.",
    "«Кто там?» — спросил он. ¦Никто не ответил.",
    "Ну… не знаю. ¦Может, завтра.",
    "— Кто там? — спросил он. ¦Никто не ответил.",
    "Он весит 80 кг. ¦Это много.",
]
TURKISH = [
    "Hava soğuk. ¦Eve gidiyoruz.",
    "Saat kaç? ¦Saat iki.",
    "Dur! ¦Tehlikeli.",
    "Dr. Yılmaz burada. ¦Bekliyor.",
    "Prof. Dr. Kaya geldi. ¦Oturdu.",
    "Meyve, ör. elma, ucuz. ¦Et değil.",
    "Fiyatı 3,14 lira. ¦Bu az.",
    "“Kim o?” diye sordu. ¦Ses yoktu.",
    "Şey… bilmiyorum. ¦Belki yarın.",
    "Atatürk Cad. No. 5 burası. ¦Gel.",
    "Doç. Kaya geldi. ¦Oturdu.",
    "M.Ö. 500 yılında oldu. ¦Sonra bitti.",
    "19. yüzyılda oldu. ¦Bitti.",
    "Saat 15.30'da geldi. ¦Gitti.",
]
CHINESE = [
    "今天很冷。¦我们回家。",
    "几点了？¦两点了。",
    "站住！¦危险。",
    "圆周率是3.14。¦这是对的。",
    "他说：“你好。”¦她笑了。",
    "“你是谁？”他问。¦没有人回答。",
    "嗯……我不知道。¦明天再说。",
    "版本2.0发布了。¦请使用。",
    "「你好！」¦她走了。",
    "真的吗？！¦是的。",
    "（他走了。）¦她来了。",
    "他说：“走吧！”¦然后他走了。",
    "Hello。¦你好。",
]
PERSIAN = [
    "هوا سرد است. ¦به خانه می‌رویم.",
    "حال شما چطور است؟ ¦خوبم.",
    "برو! ¦خطرناک است.",
    "کتاب‌ها را می‌خوانم؛ اما خسته‌ام، ولی می‌مانم. ¦بعد می‌خوابم.",
    "عدد پی ۳٫۱۴ است. ¦همین.",
    "او گفت: «برو.» ¦رفت…",
    "واقعاً؟! ¦بله.",
    "نسخهٔ 2.0 آمد. ¦آن را بگیرید.",
]
TABLES = {
    "de": GERMAN,
    "en": ENGLISH,
    "es": SPANISH,
    "fa": PERSIAN,
    "fr": FRENCH,
    "hi": HINDI,
    "it": ITALIAN,
    "ja": JAPANESE,
    "ko": KOREAN,
    "pl": POLISH,
    "pt": PORTUGUESE,
    "ru": RUSSIAN,
    "tr": TURKISH,
    "zh": CHINESE,
}


LAYOUT = [  # ⏎ is a line break
    "Things to buy:⏎¦- milk⏎¦- eggs. ¦Big ones.⏎¦* bread",
    "1. First thing. ¦Then more.⏎¦2. Second thing.",
    "a) One⏎¦b) Two",
    "(1) One⏎¦(2) Two",
    "I. Introduction⏎¦II. Method⏎¦III. Results",
    "Fruit⏎¦• apples⏎¦• pears",
    "The line breaks here⏎but the sentence goes on. ¦Then it ends.",
    "Lines that end⏎in Windows. ¦As they do.",
    "It costs 3.14,⏎or 3. ¦Take it.",
]
BY_SCRIPT = [  # no language is given
    "It is late. ¦We go home.",
    "今日は寒い。¦家に帰る。",
    "今天很冷。¦我们回家。",
    "오늘은 춥다. ¦집에 간다.",
    "यह अच्छा है। ¦वह बुरा है।",
    "А. С. Пушкин родился в Москве. ¦Его любят.",
    "هل أنت هنا؟ ¦نعم.",
    "شما اینجا هستید؟ ¦بله.",
]


def sentences(text: str, language: str | None) -> list[str]:
    """The text cut at its sure ends."""
    ends = [0, *sentence_ends(text, language).sure]
    return [text[start:end] for start, end in pairwise(ends)]


@pytest.mark.parametrize("row", LAYOUT)
@pytest.mark.parametrize("end_of_line", ["\n", "\r\n"])
def test_the_items_of_a_list_are_sentences_and_broken_lines_are_none(row: str, end_of_line: str) -> None:
    plain = row.replace("⏎", end_of_line)

    assert sentences(plain.replace("¦", ""), "en") == plain.split("¦")


@pytest.mark.parametrize("row", BY_SCRIPT)
def test_without_a_language_the_script_decides(row: str) -> None:
    assert sentences(row.replace("¦", ""), None) == row.split("¦")


def test_every_language_has_a_table_of_some_length() -> None:
    assert set(TABLES) == {"de", "en", "es", "fa", "fr", "hi", "it", "ja", "ko", "pl", "pt", "ru", "tr", "zh"}
    assert all(len(rows) >= 6 for rows in TABLES.values())


@pytest.mark.parametrize(("language", "row"), [(language, row) for language, rows in TABLES.items() for row in rows])
def test_sentences_end_where_a_reader_ends_them(language: str, row: str) -> None:
    assert sentences(row.replace("¦", ""), language) == row.split("¦")
