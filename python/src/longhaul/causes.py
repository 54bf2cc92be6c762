"""Titles and colours of causes, the same as in haul's HTML reports.

Nobody can distinguish twenty colours. So the hue, one of Okabe and Ito's eight, shows the kind of a cause, and the
lightness the cause within its kind. Every bar has names beside it.
"""

from __future__ import annotations

from collections.abc import Iterable

__all__ = ["colour", "ordered", "title"]

#: By name, in the order of every bar.
_CAUSES: dict[str, tuple[str, str]] = {
    "propagation": ("round trips", "#0072b2"),
    "connect": ("TCP handshakes", "#4a9fd0"),
    "tls": ("TLS handshakes", "#8cc7ea"),
    "quic": ("QUIC handshakes", "#8cc7ea"),
    "name_lookup": ("name lookups", "#bfe0f4"),
    "connect_retry": ("connection retries", "#f4b596"),
    "queueing": ("queues on the path", "#8a94a3"),
    "path_rate": ("link saturated", "#5b6470"),
    "shared_link": ("link shared", "#3a4250"),
    "retransmission_timeout": ("retransmission timeouts", "#c8410b"),
    "fast_recovery": ("fast recovery", "#e8804f"),
    "slow_start": ("slow start", "#e69f00"),
    "congestion_window": ("congestion window full", "#b27a00"),
    "receive_window": ("receive window full", "#f3cc6e"),
    "http_flow_control": ("HTTP/2 window full", "#7d5600"),
    "receiver_stalled": ("receiver not reading", "#f0e442"),
    "delayed_ack": ("delayed ACKs", "#b4528f"),
    "nagle": ("Nagle's algorithm", "#d995c0"),
    "send_buffer": ("send buffer full", "#86306a"),
    "pacing": ("sender pacing", "#ecc9df"),
    "server_think": ("server at work", "#009e73"),
    "client_think": ("client at work", "#7fcdb5"),
    "sender_idle": ("sender idle", "#00694d"),
    "expect_continue": ("waiting for 100 Continue", "#b9dc6c"),
    "idle": ("link idle", "#d4d8de"),
}


def title(cause: str) -> str:
    """A cause's title: ``delayed ACKs``. One of a newer haul keeps its name."""
    return _CAUSES[cause][0] if cause in _CAUSES else cause.replace("_", " ")


def colour(cause: str) -> str:
    """A cause's colour: ``#b4528f``."""
    return _CAUSES[cause][1] if cause in _CAUSES else "#9aa1ab"


def ordered(causes: Iterable[str]) -> list[str]:
    """Causes in the order of every bar; unknown ones are last."""
    rank = {cause: index for index, cause in enumerate(_CAUSES)}
    return sorted(set(causes), key=lambda cause: (rank.get(cause, len(rank)), cause))
