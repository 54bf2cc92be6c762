"""Explaining captures: where the time of their transfers went."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable, Mapping
from typing import Any

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
from .document import check_schema
from .errors import LonghaulWarning
from .result import Result
from .table import Table

__all__ = ["EXPLAIN_SCHEMA", "CapturePath", "Explanation", "explain"]

#: The schema of the documents that this package reads.
EXPLAIN_SCHEMA = "longhaul.explain/1"

CapturePath = str | bytes | os.PathLike[str] | os.PathLike[bytes]


class Explanation(Result):
    """Where the time of captured transfers went."""

    MAIN_TABLE = "transfers"

    def __init__(
        self, document: Mapping[str, Any], *, file: str = "the explanation", messages: tuple[str, ...] = ()
    ) -> None:
        node = check_schema(dict(document), EXPLAIN_SCHEMA, file)
        super().__init__(document, capture_tables(node))
        #: The captures, as they were named.
        self.captures: tuple[str, ...] = tuple(node.texts("captures"))
        #: What haul said while it read them, for instance that a capture breaks off.
        self.messages = messages

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
    options: list[Argument] = ["explain", "--json=-"]
    for name, value in (
        ("format", format),
        ("connection", connection),
        ("transfer", transfer),
        ("bytes", bytes),
        ("what-if", what_if),
    ):
        if value is not None:
            options.append(f"--{name}={value}")
    output = run_haul([*options, "--", *paths])
    if output.status and not output.stdout:
        raise output.error(None, "\n".join(output.messages))
    explanation = Explanation(output.document(), messages=output.messages)
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
