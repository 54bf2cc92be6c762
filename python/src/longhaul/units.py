"""Numbers with units, for people."""

from __future__ import annotations

__all__ = ["byte_size", "duration", "factor", "interval", "share"]


def duration(seconds: float) -> str:
    """A time: ``93.0 ms``, ``4.56 s``, ``2 min 05 s``."""
    for limit, scale, unit in ((1e-3, 1e6, "µs"), (1, 1e3, "ms"), (99.95, 1, "s")):
        if abs(seconds) < limit:
            return f"{_digits(seconds * scale)} {unit}"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02} min" if hours else f"{minutes} min {rest:02} s"


def interval(low: float, high: float) -> str:
    """A range of times: ``113–120 ms``."""
    first, last = duration(low), duration(high)
    number, _, unit = first.rpartition(" ")
    return f"{number}–{last}" if last.endswith(f" {unit}") and "min" not in last else f"{first} – {last}"


def byte_size(count: float) -> str:
    """A number of bytes: ``512 B``, ``10.0 KiB``, ``20.4 MiB``."""
    for unit in ("B", "KiB", "MiB"):
        if count < 1024:
            return f"{count:.0f} B" if unit == "B" else f"{_digits(count)} {unit}"
        count /= 1024
    return f"{_digits(count)} GiB"


def factor(value: float) -> str:
    """A factor: ``1.04×``, ``26.4×``."""
    return f"{_digits(value)}×"


def share(part: float) -> str:
    """A share of a whole: ``71 %``."""
    return f"{100 * part:.0f} %"


def _digits(value: float) -> str:
    """Three significant digits, without an exponent."""
    decimals = 0 if abs(value) >= 99.95 else 1 if abs(value) >= 9.995 else 2
    return f"{value:.{decimals}f}"
