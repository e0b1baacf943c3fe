"""Abbreviations, by language, that do not end a sentence and that the sentence splitter does not know.

Lower case, without the last full stop. Titles and units only: words that rarely end a sentence.
"""

from __future__ import annotations

GOES_ON: dict[str, frozenset[str]] = {
    language: frozenset(words.split())
    for language, words in {
        "de": "bspw ca dipl dr einschl evtl exkl fa frl geb gebr ggf hl hrn hrsg inkl prof sog st str tab ung vgl zzgl",
        "en": "approx capt col gen gov hon lt messrs ms prof rev sen sgt st vs",
        "es": "aprox avda dña dpto dr dra fr ing lic mons prof profa sr sra sres srta sto sta",
        "fr": "av bd cf d dr env m me mgr mlle mlles mm mme mmes pr prof st ste",
        "hi": "डॉ मि श्री सुश्री प्रो पं कु श्रीमती",
        "it": "avv dott dr geom ing mons prof rag sig sigg",
        "pl": "al dr gen hab im in inż ks lek mgr np os pkt pl por prof płk red św tj tzw ul",
        "pt": "arq av cap cel dr dra eng exma exmo prof profa sr sra srta sto sta séc",
        "ru": "акад гл е им кв корп напр обл пер пл пр проф св см тов ул",
        "tr": "alb av bkz cad doç dr gen hz mah müh op öğr örn prof sn sok yrd",
    }.items()
}

ENDS: dict[str, frozenset[str]] = {
    language: frozenset(words.split())
    for language, words in {
        "de": "Art Jan",
        "es": "art bien da mar no",
        "fr": "art",
        "it": "ci fa ha mai mar mi ne no re sa so sol va ven vi via",
        "pt": "art",
        "ru": "кг км",
        "tr": "al o sen ver",
    }.items()
}
"""Words, in their own case, that the splitter takes for abbreviations: before a capital letter they end a sentence."""

_NUMBERED = (
    "abb abs abt art bd cap ch chap eq fig figs godz kap lic max mind n nn no nos nr num núm núms o op p pag page "
    "pagg par pkt pos pp pág págs rozdz rys s sec str tab tel tél vol vols ö г гл п рис с ст стр т табл тел रु"
)
BEFORE_A_NUMBER = frozenset(_NUMBERED.split())
"""In any language: abbreviations where a figure follows; elsewhere many of them are words, such as "no"."""
