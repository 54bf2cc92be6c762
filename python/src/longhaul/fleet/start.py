"""When a capture begins: the time of its first packet.

haul's explanations have no absolute times for transfers, and the summary by hour needs one.
"""

from __future__ import annotations

import gzip
import struct

__all__ = ["start_time"]

_HEAD = 1 << 16
#: pcap's magic number in both byte orders: the order, and the length of a second's fraction.
_PCAP = {
    b"\xa1\xb2\xc3\xd4": (">", 1e6),
    b"\xd4\xc3\xb2\xa1": ("<", 1e6),
    b"\xa1\xb2\x3c\x4d": (">", 1e9),
    b"\x4d\x3c\xb2\xa1": ("<", 1e9),
}


def start_time(path: str) -> float | None:
    """Seconds since the epoch; None for other formats, and if there is no packet near the beginning."""
    try:
        with open(path, "rb") as file:
            head = file.read(_HEAD)
        if head[:2] == b"\x1f\x8b":
            with gzip.open(path) as unpacked:
                head = unpacked.read(_HEAD)
        return _of(head)
    except (OSError, EOFError, struct.error, ValueError):
        return None


def _of(head: bytes) -> float | None:
    if head[:4] in _PCAP:
        order, fraction = _PCAP[head[:4]]
        seconds, part = struct.unpack_from(f"{order}II", head, 24)
        return float(seconds + part / fraction)
    if head[:8] == b"snoop\0\0\0":
        seconds, part = struct.unpack_from(">II", head, 16 + 16)
        return float(seconds + part / 1e6)
    if head[:4] == b"\x0a\x0d\x0d\x0a":
        return _of_pcapng(head)
    return None


def _of_pcapng(head: bytes) -> float | None:
    """The time in the first Enhanced Packet Block."""
    order = ">" if head[8:12] == b"\x1a\x2b\x3c\x4d" else "<"
    resolutions: list[float] = []
    at = 0
    while True:
        kind, length = struct.unpack_from(f"{order}II", head, at)
        if length < 12 or length % 4:
            return None
        if kind == 1:
            resolutions.append(_resolution(head[at + 16 : at + length - 4], order))
        elif kind == 6:
            interface, high, low = struct.unpack_from(f"{order}III", head, at + 8)
            return ((high << 32) | low) / resolutions[interface] if interface < len(resolutions) else None
        at += length


def _resolution(options: bytes, order: str) -> float:
    """Units of time per second of an interface, from its option ``if_tsresol``."""
    at = 0
    while at + 4 <= len(options):
        code, length = struct.unpack_from(f"{order}HH", options, at)
        if code == 0:
            break
        if code == 9 and length == 1:
            value = options[at + 4]
            return float(2 ** (value & 0x7F) if value & 0x80 else 10**value)
        at += 4 + (length + 3) // 4 * 4
    return 1e6
