"""Values as text in Grafana units."""

from __future__ import annotations

import math
import time

_STEPS = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))
_SUFFIX = {
    "watt": "W",
    "hertz": "Hz",
    "Bps": "B/s",
    "ops": "/s",
    "cps": "/s",
    "reqps": "/s",
    "celsius": "°C",
    "joule": "J",
}

_HOURS = {"h": "h", "kwatth": "kWh"}


def format_value(value: float, unit: str, decimals: int | None = None) -> str:
    """Value as text, approximately as in Grafana."""
    if not math.isfinite(value):
        return str(value)
    if unit == "percentunit":
        return f"{_short(value * 100, 1 if decimals is None else decimals)} %"
    if unit == "bytes":
        return _scaled(value, ((2**40, "TiB"), (2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB")), "B")
    if unit == "s":
        return _seconds(value)
    if unit == "sci":
        return f"{value:.3g}"
    if unit == "dateTimeAsLocal":
        return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(value / 1000))
    if unit == "celsius":
        return f"{_short(value, 1)} °C"
    if unit in _HOURS:
        return f"{_short(value, 1 if decimals is None else decimals)} {_HOURS[unit]}"
    if unit == "none":
        return _short(value, 3 if decimals is None else decimals)
    scaled = _scaled(value, tuple((size, f"{letter}{_SUFFIX.get(unit, '')}") for size, letter in _STEPS), "")
    return (
        scaled
        if abs(value) >= _STEPS[-1][0]
        else f"{_short(value, 3 if decimals is None else decimals)} {_SUFFIX.get(unit, '')}".strip()
    )


def _short(value: float, decimals: int) -> str:
    if value and abs(value) < 10**-decimals:
        return f"{value:.2g}"
    text = f"{value:.{decimals}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def _scaled(value: float, steps: tuple[tuple[float, str], ...], plain: str) -> str:
    for size, name in steps:
        if abs(value) >= size:
            return f"{_short(value / size, 2)} {name}"
    return f"{_short(value, 2)} {plain}".strip()


def _seconds(value: float) -> str:
    for size, name in ((86400.0, "d"), (3600.0, "h"), (60.0, "min"), (1.0, "s"), (1e-3, "ms")):
        if abs(value) >= size:
            return f"{_short(value / size, 2)} {name}"
    return "0 s" if value == 0 else f"{_short(value * 1e6, 2)} µs"
