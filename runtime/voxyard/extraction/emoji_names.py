"""Names of emoji in Markdown that Unicode has otherwise: `:smile:`, `:+1:`, `:tada:`."""

from __future__ import annotations

import unicodedata

_NAMES = {
    "smile": "😄", "smiley": "😃", "grinning": "😀", "grin": "😁", "laughing": "😆", "satisfied": "😆",
    "sweat_smile": "😅", "joy": "😂", "rofl": "🤣", "blush": "😊", "wink": "😉", "heart_eyes": "😍",
    "kissing_heart": "😘", "yum": "😋", "sunglasses": "😎", "thinking": "🤔", "confused": "😕", "cry": "😢",
    "sob": "😭", "rage": "😡", "scream": "😱", "sleeping": "😴", "+1": "👍", "thumbsup": "👍", "-1": "👎",
    "thumbsdown": "👎", "clap": "👏", "pray": "🙏", "wave": "👋", "muscle": "💪", "point_right": "👉",
    "point_left": "👈", "point_up_2": "👆", "point_down": "👇", "ok_hand": "👌", "v": "✌️",
    "raised_hands": "🙌", "heart": "❤️", "star": "⭐", "star2": "🌟", "100": "💯", "tada": "🎉",
    "white_check_mark": "✅", "x": "❌", "warning": "⚠️", "exclamation": "❗",
    "heavy_exclamation_mark": "❗", "question": "❓", "arrow_right": "➡️", "arrow_left": "⬅️",
    "arrow_up": "⬆️", "arrow_down": "⬇️", "bulb": "💡", "pencil": "📝", "book": "📖", "date": "📅",
    "link": "🔗", "mag": "🔍", "construction": "🚧", "computer": "💻", "iphone": "📱", "coffee": "☕",
    "beer": "🍺", "pizza": "🍕", "earth_africa": "🌍", "sunny": "☀️", "zap": "⚡", "cat": "🐱", "dog": "🐶",
    "hourglass_flowing_sand": "⏳", "moneybag": "💰", "house": "🏠", "car": "🚗",
}  # fmt: skip


def emoji(name: str) -> str | None:
    """The emoji of a name, these or Unicode's; None for another word."""
    if name in _NAMES:
        return _NAMES[name]
    try:
        sign = unicodedata.lookup(name.replace("_", " "))
    except KeyError:
        return None
    return sign if unicodedata.category(sign[0]) == "So" else None
