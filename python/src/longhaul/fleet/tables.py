"""The tables of a fleet: one of all captures, and those of the summary."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

from ..table import Column, Schema

__all__ = ["FILES", "FLEET_SCHEMAS", "HOURS", "LOST_MOST", "NETWORKS", "SERVERS", "CaptureFile"]

_Capture = Annotated[str, Column("The capture: its absolute path or its URL")]
_Cause = Annotated[str, Column("The cause, such as `delayed_ack`")]
_Transfers = Annotated[int, Column("Number of transfers that spent time on the cause")]
_Seconds = Annotated[float, Column("The time that they spent on it", "s")]


@dataclass(frozen=True)
class CaptureFile:
    """A capture of a fleet, explained or failed."""

    capture: _Capture
    version: Annotated[str, Column("The file's ETag or modification time; a changed one is explained again")]
    size: Annotated[int | None, Column("The file's size, if known", "byte")]
    transfers: Annotated[int, Column("Number of transfers")]
    seconds: Annotated[float, Column("The time that explaining it took", "s")]
    error: Annotated[str | None, Column("Why it could not be explained")]
    message: Annotated[str | None, Column("What haul said of it otherwise, such as that it breaks off")]


@dataclass(frozen=True)
class ServerCause:
    """A server, and a cause of the time of its transfers."""

    server: Annotated[str, Column("The server's address or name, and port")]
    cause: _Cause
    transfers: _Transfers
    seconds: _Seconds
    share: Annotated[float, Column("The fraction of the time of all transfers of this server")]


@dataclass(frozen=True)
class NetworkCause:
    """A network of clients, and a cause of the time of their transfers."""

    network: Annotated[str, Column("The client's /24 (IPv4) or /48 (IPv6), or its name if it has no address")]
    cause: _Cause
    transfers: _Transfers
    seconds: _Seconds
    share: Annotated[float, Column("The fraction of the time of all transfers of this network")]


@dataclass(frozen=True)
class HourCause:
    """An hour, and a cause of the time of the transfers that begin in it."""

    hour: Annotated[str | None, Column("The hour in UTC, such as `2026-11-25T03Z`; none if the capture has no dates")]
    cause: _Cause
    transfers: _Transfers
    seconds: _Seconds
    share: Annotated[float, Column("The fraction of the time of all transfers of this hour")]


@dataclass(frozen=True)
class LostTransfer:
    """A transfer that lost much time to an avoidable cause. Those that lost most are first."""

    capture: _Capture
    connection: Annotated[int, Column("The connection, counted from 0 in its capture")]
    transfer: Annotated[int, Column("The transfer, counted from 0 in its connection")]
    client: Annotated[str, Column("The client's address or name, and port")]
    server: Annotated[str, Column("The server's address or name, and port")]
    what: Annotated[str, Column("Method and path, such as `PUT /file`; empty if not readable")]
    duration_s: Annotated[float, Column("The duration", "s")]
    cause: Annotated[str, Column("The avoidable cause that took most time")]
    lost_s: Annotated[float, Column("The time of that cause", "s")]


FILES = Schema("fleet_files", 1, CaptureFile)
SERVERS = Schema("fleet_servers", 1, ServerCause)
NETWORKS = Schema("fleet_networks", 1, NetworkCause)
HOURS = Schema("fleet_hours", 1, HourCause)
LOST_MOST = Schema("fleet_lost_most", 1, LostTransfer)

FLEET_SCHEMAS: tuple[Schema[Any], ...] = (FILES, SERVERS, NETWORKS, HOURS, LOST_MOST)
