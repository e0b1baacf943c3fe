"""Abbreviations after which a sentence goes on: those that the sentence splitter does not know, by language.

Lower case, without the last full stop. Titles and units only: words that rarely end a sentence.
"""

from __future__ import annotations

GOES_ON: dict[str, frozenset[str]] = {
    language: frozenset(words.split())
    for language, words in {
        "de": "ca dr evtl frl ggf hl hrsg inkl prof sog st str tab ung vgl zzgl",
        "en": "approx capt col gen gov hon lt messrs prof rev sen sgt st vs",
        "es": "avda dpto dr dra ing lic prof profa sr sra sres srta sto sta",
        "fr": "av bd cf dr env m me mgr mlle mlles mm mme mmes pr prof st ste",
        "hi": "डॉ श्री सुश्री प्रो पं कु श्रीमती",
        "it": "avv dott dr geom ing mons prof rag sig sigg",
        "pl": "al dr gen im inż ks lek mgr np os pkt pl por prof red św tj ul",
        "pt": "av dr dra eng exmo prof profa sr sra sto sta",
        "ru": "акад гл им кв корп напр обл пер пл пр проф св см тов ул",
        "tr": "alb av bkz cad dr gen hz mah müh op örn prof sn sok yrd",
    }.items()
}

_NUMBERED = (
    "abb abs art bd cap ch chap eq fig figs godz kap lic n nn no nos nr num núm núms o op p pag pagg par pág págs "
    "page pkt pos pp rozdz rys s sec str tab tel tél vol vols г гл п рис с ст стр т табл тел"
)
BEFORE_A_NUMBER = frozenset(_NUMBERED.split())
"""In any language: abbreviations where a figure follows; elsewhere many of them are words, such as "no"."""
