"""Explaining captures: where the time of their transfers went."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from . import html, plots
from .binary import Argument, run_haul
from .capture_tables import (
    Connection,
    Finding,
    Fix,
    PageCause,
    PageLoad,
    Transfer,
    TransferCause,
    capture_tables,
)
from .document import Node, check_schema
from .errors import LonghaulWarning
from .packets import PACKETS, Packet, View, read_view
from .result import Result
from .table import Table

if TYPE_CHECKING:
    import altair

__all__ = ["EXPLAIN_SCHEMA", "CapturePath", "Explanation", "explain"]

#: The schema of the documents that this package reads.
EXPLAIN_SCHEMA = "longhaul.explain/1"

CapturePath = str | bytes | os.PathLike[str] | os.PathLike[bytes]


class Explanation(Result):
    """Where the time of captured transfers went."""

    MAIN_TABLE = "transfers"

    def __init__(
        self,
        document: Mapping[str, Any],
        *,
        file: str = "the explanation",
        messages: tuple[str, ...] = (),
        arguments: Sequence[Argument] = (),
    ) -> None:
        node = check_schema(dict(document), EXPLAIN_SCHEMA, file)
        super().__init__(document, capture_tables(node))
        #: The captures, as they were named.
        self.captures: tuple[str, ...] = tuple(node.texts("captures"))
        #: What haul said while it read them, for instance that a capture breaks off.
        self.messages = messages
        # What to tell haul in order to explain the same again.
        self._arguments = arguments
        self._view: View | None = None

    @property
    def transfers(self) -> Table[Transfer]:
        """One row for each transfer."""
        return self.tables["transfers"]

    @property
    def causes(self) -> Table[TransferCause]:
        """One row for each transfer and each cause of its time."""
        return self.tables["causes"]

    @property
    def findings(self) -> Table[Finding]:
        """One row for each avoidable cause of each transfer."""
        return self.tables["findings"]

    @property
    def fixes(self) -> Table[Fix]:
        """One row for each fix of each finding."""
        return self.tables["fixes"]

    @property
    def connections(self) -> Table[Connection]:
        """One row for each connection."""
        return self.tables["connections"]

    @property
    def pages(self) -> Table[PageLoad]:
        """One row for each client that used several connections at a time."""
        return self.tables["pages"]

    @property
    def page_causes(self) -> Table[PageCause]:
        """One row for each of these and each cause along its critical path."""
        return self.tables["page_causes"]

    def packets(self) -> Table[Packet]:
        """One row for each packet. haul reads the captures again for it, so they must still exist.

        Of larger captures these are 250,000 packets of the connections that lost most time.
        """
        rows = (
            packet for _, node, index in self._viewed_connections() for packet in self._read_view().packets(node, index)
        )
        return Table(PACKETS, tuple(rows))

    def plot_causes(self) -> altair.Chart:
        """A chart of what the longest transfers were spent on. Needs the extra ``plot``."""
        return plots.transfer_causes(self)

    def plot_sequence(self, transfer: Transfer) -> altair.LayerChart:
        """The time–sequence graph of a transfer. Needs the extra ``plot``, and the captures must still exist.

        Raises:
            ValueError: The packets of this transfer are not at hand, because others lost more time.
        """
        view = self._read_view()
        for position, node, index in self._viewed_connections():
            if index != transfer.connection:
                continue
            for one in view.transfers(position):
                if (one.text("what"), one.number("duration_s")) == (transfer.what, transfer.duration_s):
                    start = one.number("start_s")
                    end = start + transfer.duration_s
                    packets = [packet for packet in view.packets(node, index) if start <= packet.time_s <= end + 1e-6]
                    spent = [one for one in view.intervals(node) if one.to_s > start and one.from_s < end]
                    title = f"{transfer.what or transfer.direction}  {transfer.client} → {transfer.server}"
                    sender = "client" if transfer.direction == "upload" else "server"
                    return plots.sequence(packets, spent, title, sender)
        raise ValueError(
            f"the packets of {transfer.what or 'this transfer'} are not at hand; explain its capture alone"
        )

    def _viewed_connections(self) -> Iterator[tuple[int, Node, int]]:
        """The connections whose packets are at hand: the position there, the connection, and its number here.

        They are in the same order there and here.
        """
        view, index = self._read_view(), 0
        for position, node in enumerate(view.connections()):
            key = (view.capture(node), node.text("client"), node.text("server"), node.integer("packets"))
            while index < len(self.connections):
                one = self.connections[index]
                index += 1
                if (one.capture, one.client, one.server, one.packets) == key:
                    yield position, node, one.connection
                    break

    def _read_view(self) -> View:
        if self._view is None:
            arguments = self._arguments or ["--", *_paths(self.captures)]
            output = run_haul(["explain", "--html=-", *arguments])
            if not output.stdout:
                raise output.error()
            self._view = read_view(output.stdout)
        return self._view

    def _repr_html_(self) -> str:
        return html.of_explanation(self)

    def __repr__(self) -> str:
        return f"<Explanation of {len(self.captures)} captures: {len(self.transfers)} transfers>"


def explain(
    captures: CapturePath | Iterable[CapturePath],
    *,
    format: str | None = None,
    connection: str | None = None,
    transfer: str | None = None,
    bytes: int | str | None = None,
    what_if: str | None = None,
    skip_unreadable: bool = False,
) -> Explanation:
    """Explains where the time of captured transfers went.

    Args:
        captures: A capture or several: pcap, pcapng or snoop, optionally compressed, or the printed output of snoop and
            tcpdump. Captures of both ends of a connection can be given together.
        format: Override format detection: ``pcap``, ``pcapng``, ``snoop`` or ``tcpdump``.
        connection: Only connections with this text in one of their ends: an address, a name, ``:PORT``.
        transfer: Only transfers with this text in their request: a method, a path.
        bytes: Predict the time for another number of bytes, such as ``"18MB"``.
        what_if: Predict the time with changes, such as ``"rtt=20ms,nodelay"``.
        skip_unreadable: Explain the other captures if one cannot be read, with a warning. If none can be read, the call
            fails nevertheless.

    Raises:
        HaulError: A capture cannot be read, or nothing matches ``connection`` or ``transfer``. The explanation of the
            other captures is in the exception's ``result``.
        UsageError: An argument is not accepted.
    """
    paths = _paths(captures)
    options: list[Argument] = []
    for name, value in (
        ("format", format),
        ("connection", connection),
        ("transfer", transfer),
        ("bytes", bytes),
        ("what-if", what_if),
    ):
        if value is not None:
            options.append(f"--{name}={value}")
    arguments = [*options, "--", *paths]
    output = run_haul(["explain", "--json=-", *arguments])
    if output.status and not output.stdout:
        raise output.error(None, "\n".join(output.messages))
    explanation = Explanation(output.document(), messages=output.messages, arguments=arguments)
    if output.status and not skip_unreadable:
        raise output.error(explanation, "\n".join(output.messages))
    for message in output.messages:
        warnings.warn(message, LonghaulWarning, stacklevel=2)
    return explanation


def _paths(captures: CapturePath | Iterable[CapturePath]) -> list[Argument]:
    if isinstance(captures, str | bytes | os.PathLike):
        captures = [captures]
    paths: list[Argument] = [os.fspath(path) for path in captures]
    if not paths:
        raise ValueError("no captures to explain; give at least one path")
    # To haul, `-` is standard input.
    return ["./-" if path in ("-", b"-") else path for path in paths]
