"""The tables of an explanation, and how they are made from its JSON document.

``capture``, ``connection`` and ``transfer`` identify a transfer in all of them. So tables can be joined, and those of
several explanations put together.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Any

from .document import Node
from .table import Column, Schema, Table

__all__ = [
    "CAPTURE_SCHEMAS",
    "CAUSES",
    "CONNECTIONS",
    "FINDINGS",
    "FIXES",
    "PAGES",
    "PAGE_CAUSES",
    "TRANSFERS",
    "Connection",
    "Finding",
    "Fix",
    "PageCause",
    "PageLoad",
    "Transfer",
    "TransferCause",
    "capture_tables",
]

_Capture = Annotated[str, Column("The capture, as it was named")]
_Connection = Annotated[int, Column("The connection, counted from 0 in its explanation")]
_Transfer = Annotated[int, Column("The transfer, counted from 0 in its connection")]
_Cause = Annotated[str, Column("The cause, such as `delayed_ack`")]


@dataclass(frozen=True)
class Connection:
    """A TCP connection of a capture."""

    capture: _Capture
    connection: _Connection
    client: Annotated[str, Column("The client's address or name, and port")]
    server: Annotated[str, Column("The server's address or name, and port")]
    vantage: Annotated[str, Column("Where it was captured: `client`, `server`, `middle` or `unknown`")]
    packets: Annotated[int, Column("Number of packets")]
    start_s: Annotated[
        float | None,
        Column("When the first packet passed, since the epoch; in a printed capture, perhaps since midnight", "s"),
    ]
    rtt_ms: Annotated[float, Column("The round-trip time without queueing", "ms")]
    mss: Annotated[int, Column("Bytes of a full segment, in the direction of most bytes", "byte")]
    rate_bits: Annotated[float | None, Column("The bottleneck rate, if it could be inferred", "bit/s")]
    chunk: Annotated[
        int | None, Column("The size of the sender's writes, if it waits for each to be acknowledged", "byte")
    ]
    client_system: Annotated[str | None, Column("The client's operating system, such as `Linux`, if its SYN shows it")]
    server_system: Annotated[str | None, Column("The server's operating system, if its SYN shows it")]


@dataclass(frozen=True)
class Transfer:
    """A transfer: one HTTP message or byte stream of a connection."""

    capture: _Capture
    connection: _Connection
    transfer: _Transfer
    client: Annotated[str, Column("The client's address or name, and port")]
    server: Annotated[str, Column("The server's address or name, and port")]
    what: Annotated[str, Column("Method and path, such as `PUT /file`; empty if not readable")]
    status: Annotated[str, Column("The status, such as `201`; empty if not readable")]
    direction: Annotated[str, Column("The direction of most bytes: `upload` or `download`")]
    start_s: Annotated[float, Column("The start, since the connection's first packet", "s")]
    duration_s: Annotated[float, Column("The duration", "s")]
    bytes: Annotated[int, Column("Bytes of data in both directions", "byte")]
    cause: Annotated[str | None, Column("The avoidable cause that took most time, if any")]
    lost_s: Annotated[float, Column("The time of that cause", "s")]
    change: Annotated[str | None, Column("The change that was asked for with `what_if` or `bytes`")]
    predicted_s: Annotated[float | None, Column("The predicted duration with that change", "s")]
    model_error: Annotated[
        float | None, Column("How much longer the replica took than the captured transfer, as a fraction")
    ]


@dataclass(frozen=True)
class TransferCause:
    """A transfer and a cause of its time. The causes of a transfer add up to its duration."""

    capture: _Capture
    connection: _Connection
    transfer: _Transfer
    what: Annotated[str, Column("Method and path of the transfer; empty if not readable")]
    direction: Annotated[str, Column("The direction of most bytes: `upload` or `download`")]
    duration_s: Annotated[float, Column("The duration of the transfer", "s")]
    cause: _Cause
    seconds: Annotated[float, Column("The time spent on the cause", "s")]


@dataclass(frozen=True)
class Finding:
    """An avoidable cause of a transfer's time, with its evidence."""

    capture: _Capture
    connection: _Connection
    transfer: _Transfer
    finding: Annotated[int, Column("The finding, counted from 0 in its transfer, most expensive first")]
    cause: _Cause
    cost_s: Annotated[float, Column("The time that it cost", "s")]
    why: Annotated[str, Column("The reason, one paragraph")]
    packets: Annotated[tuple[int, ...], Column("Numbers of packets in the capture that show it")]
    predicted_s: Annotated[float | None, Column("The predicted duration of the transfer without the cause", "s")]
    model_error: Annotated[
        float | None, Column("How much longer the replica took than the captured transfer, as a fraction")
    ]


@dataclass(frozen=True)
class Fix:
    """A fix for a finding."""

    capture: _Capture
    connection: _Connection
    transfer: _Transfer
    finding: Annotated[int, Column("The finding, counted from 0 in its transfer")]
    cause: _Cause
    system: Annotated[str, Column("Where the fix applies")]
    how: Annotated[str, Column("The command or setting")]
    but: Annotated[str, Column("Its side effects; empty if none are known")]
    applies: Annotated[
        bool | None,
        Column("Whether it is for the systems of this connection; null if these are unknown"),
    ]


@dataclass(frozen=True)
class PageLoad:
    """What one client did over several connections at a time."""

    page: Annotated[int, Column("The page load, counted from 0 in its explanation")]
    client: Annotated[str, Column("The client's address")]
    start_s: Annotated[float, Column("The start, since the epoch", "s")]
    duration_s: Annotated[float, Column("The duration, until its last transfer ended", "s")]
    connections: Annotated[int, Column("Number of connections")]
    transfers: Annotated[int, Column("Number of transfers")]
    bytes: Annotated[int, Column("Bytes of data", "byte")]


@dataclass(frozen=True)
class PageCause:
    """A page load and a cause of its time, along the critical path."""

    page: Annotated[int, Column("The page load, counted from 0 in its explanation")]
    client: Annotated[str, Column("The client's address")]
    duration_s: Annotated[float, Column("The duration of the page load", "s")]
    cause: _Cause
    seconds: Annotated[float, Column("The time spent on the cause", "s")]


CONNECTIONS = Schema("connections", 1, Connection)
TRANSFERS = Schema("transfers", 1, Transfer)
CAUSES = Schema("causes", 1, TransferCause)
FINDINGS = Schema("findings", 1, Finding)
FIXES = Schema("fixes", 1, Fix)
PAGES = Schema("pages", 1, PageLoad)
PAGE_CAUSES = Schema("page_causes", 1, PageCause)

CAPTURE_SCHEMAS: tuple[Schema[Any], ...] = (TRANSFERS, CAUSES, FINDINGS, FIXES, CONNECTIONS, PAGES, PAGE_CAUSES)


def capture_tables(document: Node) -> dict[str, Table[Any]]:
    """The tables of a document of schema ``longhaul.explain/1``."""
    rows: dict[type, list[Any]] = {schema.row: [] for schema in CAPTURE_SCHEMAS}
    for row in _rows(document):
        rows[type(row)].append(row)
    return {schema.name: Table(schema, tuple(rows[schema.row])) for schema in CAPTURE_SCHEMAS}


def _rows(document: Node) -> Iterator[object]:
    for index, connection in enumerate(document.nodes("connections")):
        yield _connection(connection, index)
        for number, transfer in enumerate(connection.nodes("transfers")):
            key = (connection.text("capture"), index, number)
            yield _transfer(connection, transfer, key)
            yield from _causes(transfer, key)
            yield from _findings(transfer, key)
    for index, page in enumerate(document.nodes("pages")):
        yield from _page(page, index)


def _connection(node: Node, index: int) -> Connection:
    systems = node.node("system")
    return Connection(
        capture=node.text("capture"),
        connection=index,
        client=node.text("client"),
        server=node.text("server"),
        vantage=node.text("vantage"),
        packets=node.integer("packets"),
        start_s=node.optional_number("start_s"),
        rtt_ms=node.number("rtt_ms"),
        mss=node.integer("mss"),
        rate_bits=node.optional_number("rate_bits"),
        chunk=node.optional_integer("chunk"),
        client_system=systems.optional_text("client") if systems else None,
        server_system=systems.optional_text("server") if systems else None,
    )


def _transfer(connection: Node, node: Node, key: tuple[str, int, int]) -> Transfer:
    what_if = node.node("what_if")
    cause = node.optional_text("cause")
    return Transfer(
        *key,
        client=connection.text("client"),
        server=connection.text("server"),
        what=node.text("what"),
        status=node.text("status"),
        direction=node.text("direction"),
        start_s=node.number("start_s"),
        duration_s=node.number("duration_s"),
        bytes=node.integer("bytes"),
        cause=cause,
        lost_s=0.0 if cause is None else node.numbers_by_name("time_s").get(cause, 0.0),
        change=what_if.text("change") if what_if else None,
        predicted_s=what_if.number("predicted_s") if what_if else None,
        model_error=what_if.optional_number("model_error") if what_if else None,
    )


def _causes(node: Node, key: tuple[str, int, int]) -> Iterator[TransferCause]:
    for cause, seconds in node.numbers_by_name("time_s").items():
        yield TransferCause(
            *key,
            what=node.text("what"),
            direction=node.text("direction"),
            duration_s=node.number("duration_s"),
            cause=cause,
            seconds=seconds,
        )


def _findings(node: Node, key: tuple[str, int, int]) -> Iterator[Finding | Fix]:
    for index, finding in enumerate(node.nodes("findings")):
        cause = finding.text("cause")
        yield Finding(
            *key,
            finding=index,
            cause=cause,
            cost_s=finding.number("cost_s"),
            why=finding.text("why"),
            packets=tuple(int(number) for number in finding.numbers("packets")),
            predicted_s=finding.optional_number("predicted_s"),
            model_error=finding.optional_number("model_error"),
        )
        for fix in finding.nodes("fix"):
            yield Fix(
                *key,
                finding=index,
                cause=cause,
                system=fix.text("system"),
                how=fix.text("how"),
                but=fix.text("but"),
                applies=fix.optional_boolean("applies"),
            )


def _page(node: Node, index: int) -> Iterator[PageLoad | PageCause]:
    page = PageLoad(
        page=index,
        client=node.text("client"),
        start_s=node.number("start_s"),
        duration_s=node.number("duration_s"),
        connections=node.integer("connections"),
        transfers=node.integer("transfers"),
        bytes=node.integer("bytes"),
    )
    yield page
    for cause, seconds in node.numbers_by_name("time_s").items():
        yield PageCause(index, page.client, page.duration_s, cause, seconds)
