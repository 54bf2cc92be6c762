"""Packets, interval by interval, from the document inside haul's HTML report: schema ``longhaul.view/1``.

The packets of a connection are bytes, each a difference to the last one of its side.
`crates/explain/src/packet_trace.rs` describes the encoding.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Any

from .document import Node, check_schema
from .errors import DocumentError
from .table import Column, Schema

__all__ = ["PACKETS", "VIEW_SCHEMA", "Interval", "Packet", "View", "read_view"]

#: The schema of the documents that this package reads.
VIEW_SCHEMA = "longhaul.view/1"


@dataclass(frozen=True)
class Packet:
    """A packet of a connection. Byte counts are relative: a side's first byte of data is 0."""

    capture: Annotated[str, Column("The capture, as it was named")]
    connection: Annotated[int, Column("The connection, counted from 0 in its explanation")]
    number: Annotated[int, Column("The packet's number in the capture")]
    time_s: Annotated[float, Column("The time, since the explanation's first transfer began", "s")]
    sender: Annotated[str, Column("`client` or `server`")]
    flags: Annotated[str, Column("The TCP flags, such as `SYN ACK`")]
    sequence: Annotated[int, Column("The position of its first byte in its side's data", "byte")]
    length: Annotated[int, Column("Bytes of data", "byte")]
    acknowledged: Annotated[
        int | None, Column("The position in the other side's data up to which it acknowledges", "byte")
    ]
    window: Annotated[int, Column("The receive window, scaled", "byte")]
    retransmission: Annotated[bool, Column("Whether it was sent before")]
    probe: Annotated[bool, Column("Whether it probes a closed window, or an idle connection")]


PACKETS = Schema("packets", 1, Packet)

_FLAGS = ("FIN", "SYN", "RST", "PSH", "ACK", "URG")
_ACK, _SERVER, _RETRANSMISSION, _PROBE, _BLOCKS = 16, 64, 128, 256, 512


@dataclass(frozen=True)
class Interval:
    """What a connection's time was spent on, from one moment to another."""

    from_s: float
    to_s: float
    cause: str


@dataclass(frozen=True)
class View:
    """A document of schema ``longhaul.view/1``."""

    document: Node

    def connections(self) -> Iterator[Node]:
        """The connections whose packets are in the document."""
        return self.document.nodes("connections")

    def transfers(self, position: int) -> list[Node]:
        """The transfers of the connection at this position of :meth:`connections`."""
        return [node for node in self.document.nodes("transfers") if node.integer("connection") == position]

    def capture(self, connection: Node) -> str:
        """The name of a connection's capture."""
        return self.document.texts("captures")[connection.integer("capture")]

    def packets(self, connection: Node, index: int) -> Iterator[Packet]:
        """The packets of a connection. ``index`` is its number in the explanation."""
        trace = connection.node("trace")
        if trace is None:
            return
        numbers = _Numbers(base64.b64decode(trace.text("packets")))
        capture, begin_s = self.capture(connection), trace.number("begin_s")
        number = micros = 0
        sides = {"client": _Side(), "server": _Side()}
        while numbers:
            number += numbers.unsigned()
            micros += numbers.unsigned()
            kind = numbers.unsigned()
            sender = "server" if kind & _SERVER else "client"
            side = sides[sender]
            sequence = side.end + numbers.signed()
            length = numbers.unsigned()
            if kind & _ACK:
                side.acknowledged += numbers.signed()
            side.window += numbers.signed()
            if kind & _BLOCKS:
                for _ in range(2 * numbers.unsigned()):
                    numbers.unsigned()
            # A SYN and a FIN count as one byte each.
            side.end = sequence + length + (kind >> 1 & 1) + (kind & 1)
            yield Packet(
                capture,
                index,
                number,
                time_s=begin_s + micros / 1e6,
                sender=sender,
                flags=" ".join(name for bit, name in enumerate(_FLAGS) if kind >> bit & 1),
                sequence=sequence,
                length=length,
                acknowledged=side.acknowledged if kind & _ACK else None,
                window=side.window,
                retransmission=bool(kind & _RETRANSMISSION),
                probe=bool(kind & _PROBE),
            )

    def intervals(self, connection: Node) -> Iterator[Interval]:
        """What each moment of a connection was spent on."""
        trace = connection.node("trace")
        if trace is None:
            return
        causes = [cause.text("name") for cause in self.document.nodes("causes")]
        numbers = _Numbers(base64.b64decode(trace.text("pieces")))
        from_s = trace.number("begin_s")
        while numbers:
            to_s = from_s + numbers.unsigned() / 1e6
            cause = causes[numbers.unsigned()]
            numbers.signed()
            yield Interval(from_s, to_s, cause)
            from_s = to_s


@dataclass
class _Side:
    """The last packet of a side."""

    end: int = 0
    acknowledged: int = 0
    window: int = 0


class _Numbers:
    """Numbers of variable length: LEB128; signed ones in zigzag encoding."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def __bool__(self) -> bool:
        return self._at < len(self._data)

    def unsigned(self) -> int:
        number = shift = 0
        while True:
            if self._at >= len(self._data):
                raise DocumentError("the report's packets break off")
            byte = self._data[self._at]
            self._at += 1
            number |= (byte & 0x7F) << shift
            if byte < 0x80:
                return number
            shift += 7

    def signed(self) -> int:
        number = self.unsigned()
        return number >> 1 ^ -(number & 1)


def read_view(report: bytes) -> View:
    """The document inside an HTML report of captures."""
    found = re.search(rb'<script[^>]*\bid="?data"?[^>]*>(.*?)</script>', report, re.DOTALL)
    if found is None:
        raise DocumentError("the report has no element with the id `data`")
    document: Any = json.loads(found[1])
    return View(check_schema(document, VIEW_SCHEMA, "the report"))
