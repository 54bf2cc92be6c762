"""What a fleet's transfers were spent on."""

from __future__ import annotations

import heapq
import ipaddress
from collections import defaultdict
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any

from ..table import Table
from .store import Batch, Store
from .tables import (
    FILES,
    HOURS,
    LOST_MOST,
    NETWORKS,
    SERVERS,
    CaptureFile,
    HourCause,
    LostTransfer,
    NetworkCause,
    ServerCause,
)

__all__ = ["Summary", "summary"]

#: Earlier, a time is one of a printed capture without dates: since midnight, or since the capture began.
_DATED_S = 366 * 86_400


@dataclass(frozen=True)
class Summary:
    """Where the time of a fleet's transfers went."""

    #: The number of captures, of those that failed, and of transfers.
    captures: int
    failures: int
    transfers: int
    #: One row for each server and cause; the others are for networks and hours. Most time is first.
    servers: Table[ServerCause]
    networks: Table[NetworkCause]
    hours: Table[HourCause]
    #: The transfers that lost most time to an avoidable cause.
    lost_most: Table[LostTransfer]
    #: Captures that could not be explained; at most as many as ``lost_most``.
    failed: Table[CaptureFile]


class _Sums:
    """Seconds and transfers by group and cause."""

    def __init__(self) -> None:
        self._sums: defaultdict[tuple[Any, str], list[float]] = defaultdict(lambda: [0, 0.0])

    def add(self, group: Hashable, cause: str, seconds: float) -> None:
        sums = self._sums[group, cause]
        sums[0] += 1
        sums[1] += seconds

    def rows(self, make: Callable[..., Any]) -> tuple[Any, ...]:
        """Groups with most time first, and in each the causes with most time."""
        totals: defaultdict[Any, float] = defaultdict(float)
        for (group, _), (_, seconds) in self._sums.items():
            totals[group] += seconds
        ordered = sorted(
            self._sums.items(), key=lambda one: (-totals[one[0][0]], one[0][0] or "", -one[1][1], one[0][1])
        )
        return tuple(
            make(group, cause, int(count), seconds, seconds / totals[group] if totals[group] else 0.0)
            for (group, cause), (count, seconds) in ordered
        )


def summary(out: str, most: int) -> Summary:
    """Reads a dataset batch by batch."""
    store = Store(out)
    servers, networks, hours = _Sums(), _Sums(), _Sums()
    lost: list[LostTransfer] = []
    failed: list[CaptureFile] = []
    captures = failures = transfers = 0
    for batch in store.batches():
        captures += len(batch.files)
        failures += sum(file.error is not None for file in batch.files)
        failed += [file for file in batch.files if file.error is not None][: most - len(failed)]
        ends = _ends(store, batch)
        transfers += len(ends)
        for row in store.rows(batch, "causes", ("capture", "connection", "transfer", "cause", "seconds")):
            client, server, start_s = ends[row["capture"], row["connection"], row["transfer"]]
            for sums, group in ((servers, server), (networks, network(client)), (hours, _hour(start_s))):
                sums.add(group, row["cause"], row["seconds"])
        columns = [field.name for field in LOST_MOST.fields]
        here = [LostTransfer(**row) for row in store.rows(batch, "transfers", columns) if row["cause"] is not None]
        lost = heapq.nsmallest(
            most, [*lost, *here], key=lambda one: (-one.lost_s, one.capture, one.connection, one.transfer)
        )
    if not captures:
        raise FileNotFoundError(f"{out} has no explained captures; run longhaul.fleet.explain first")
    return Summary(
        captures,
        failures,
        transfers,
        Table(SERVERS, servers.rows(ServerCause)),
        Table(NETWORKS, networks.rows(NetworkCause)),
        Table(HOURS, hours.rows(HourCause)),
        Table(LOST_MOST, tuple(lost)),
        Table(FILES, tuple(failed)),
    )


def _ends(store: Store, batch: Batch) -> Mapping[tuple[str, int, int], tuple[str, str, float]]:
    """Client, server and start of each transfer."""
    rows = store.rows(batch, "connections", ("capture", "connection", "start_s"))
    begun = {(row["capture"], row["connection"]): row["start_s"] or 0.0 for row in rows}
    rows = store.rows(batch, "transfers", ("capture", "connection", "transfer", "client", "server", "start_s"))
    return {
        (row["capture"], row["connection"], row["transfer"]): (
            row["client"],
            row["server"],
            begun[row["capture"], row["connection"]] + row["start_s"],
        )
        for row in rows
    }


def network(client: str) -> str:
    """A client's network: its /24 or /48, or its name."""
    host = client.rpartition(":")[0].strip("[]") or client
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return host
    return str(ipaddress.ip_network((address, 24 if address.version == 4 else 48), strict=False))


def _hour(start_s: float) -> str | None:
    return None if start_s < _DATED_S else f"{datetime.fromtimestamp(start_s, timezone.utc):%Y-%m-%dT%HZ}"
