"""The tables of a run, and how they are made from its JSON document.

``run``, ``workload``, ``network`` and ``contender`` identify a cell in all of them. So tables can be joined, and those
of several runs put together.
"""

from __future__ import annotations

import csv
import math
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from .document import Node
from .table import Column, Schema, Table

__all__ = [
    "CELLS",
    "CELL_CAUSES",
    "CLAIMS",
    "COMPARISONS",
    "METHODS",
    "RUN_SCHEMAS",
    "SAMPLES",
    "Cell",
    "CellCause",
    "Claim",
    "Comparison",
    "Method",
    "Sample",
    "run_tables",
]

_Run = Annotated[str, Column("The run: the name of its folder")]
_Workload = Annotated[str, Column("The workload")]
_Network = Annotated[str, Column("The network")]
_Contender = Annotated[str, Column("The contender with its settings, such as `rclone transfers=16`")]
_Model = Annotated[bool, Column("Whether the contender is a model of a client that cannot run here")]
_Status = Annotated[str, Column("The cell's status: `ok`, `skipped` or `failed`")]


@dataclass(frozen=True)
class Cell:
    """A cell: a workload, a network and a contender."""

    run: _Run
    workload: _Workload
    network: _Network
    contender: _Contender
    model: _Model
    requests_of: Annotated[
        str | None, Column("The contender that sends the same requests without the program in between")
    ]
    status: _Status
    reason: Annotated[str | None, Column("Why it was skipped or failed, and what to install")]
    samples: Annotated[int, Column("Number of samples")]
    median_s: Annotated[float | None, Column("The median of the samples", "s")]
    ci95_lo_s: Annotated[float | None, Column("The lower end of the median's interval", "s")]
    ci95_hi_s: Annotated[float | None, Column("The upper end of the median's interval", "s")]
    floor_s: Annotated[float, Column("The minimum time that physics allows", "s")]
    times_floor: Annotated[float | None, Column("`median_s` ÷ `floor_s`")]
    rtt_s: Annotated[float | None, Column("The network's round-trip time without queueing", "s")]
    round_trips: Annotated[float | None, Column("`median_s` ÷ `rtt_s`")]
    link_round_trips: Annotated[int | None, Column("Successive round trips on the link, median")]
    bytes: Annotated[int | None, Column("Bytes on the link in both directions, median", "byte")]
    requests: Annotated[int | None, Column("HTTP requests, median")]
    connections: Annotated[int | None, Column("TCP connections, median")]
    server_cpu_s: Annotated[float | None, Column("The server's processor time, median", "s")]
    ideal_s: Annotated[float | None, Column("The time of a page load on an ideal network", "s")]
    fcp_s: Annotated[float | None, Column("First contentful paint in a browser, median", "s")]
    lcp_s: Annotated[float | None, Column("Largest contentful paint in a browser, median", "s")]
    why: Annotated[str | None, Column("What the typical sample's time was spent on")]
    disturbed: Annotated[
        str | None,
        Column("What the machine did to the samples, so that their times are too long; null if they can be used"),
    ]
    machine: Annotated[str | None, Column("The machine that measured it")]
    late_s: Annotated[float | None, Column("The emulator's delay error there: 99th percentile at 1000 packets/s", "s")]


@dataclass(frozen=True)
class Sample:
    """A sample: one run of a cell. Those of a failed cell were right, and precede its failure."""

    run: _Run
    workload: _Workload
    network: _Network
    contender: _Contender
    model: _Model
    status: _Status
    round: Annotated[int, Column("The round, from 0; in each round every contender runs once")]
    start_s: Annotated[float | None, Column("The start, since the run began; from `samples.csv`", "s")]
    seconds: Annotated[float, Column("The duration", "s")]
    bytes: Annotated[int | None, Column("Bytes on the link in both directions; from `samples.csv`", "byte")]
    requests: Annotated[int | None, Column("HTTP requests; from `samples.csv`")]
    connections: Annotated[int | None, Column("TCP connections; from `samples.csv`")]
    server_cpu_s: Annotated[float | None, Column("The server's processor time; from `samples.csv`", "s")]
    link_round_trips: Annotated[int | None, Column("Successive round trips on the link; from `samples.csv`")]
    added_s: Annotated[float | None, Column("The most that the machine added to it; from `samples.csv`", "s")]
    disturbed: Annotated[bool | None, Column("Whether the machine added too much to it; from `samples.csv`")]


@dataclass(frozen=True)
class Comparison:
    """Two contenders with the same workload and network."""

    run: _Run
    workload: _Workload
    network: _Network
    a: Annotated[str, Column("The contender with the smaller median")]
    b: Annotated[str, Column("The other contender")]
    ratio: Annotated[float, Column("The time of `b` ÷ the time of `a`: the Hodges–Lehmann estimate")]
    ci95_lo: Annotated[float | None, Column("The lower end of its interval")]
    ci95_hi: Annotated[float | None, Column("The upper end of its interval")]
    confidence: Annotated[float, Column("The coverage of the interval")]
    differs: Annotated[bool, Column("Whether a difference was detected")]


@dataclass(frozen=True)
class Claim:
    """A claim of the experiment's source, with its verdict."""

    run: _Run
    id: Annotated[str, Column("The claim's short name")]
    source: Annotated[str, Column("The source of the sentence")]
    said: Annotated[str, Column("The sentence, word for word")]
    workload: _Workload
    network: _Network
    in_run: Annotated[bool, Column("Whether its cells were part of the run")]
    model: Annotated[bool, Column("Whether the verdict rests on a model")]
    measured: Annotated[str, Column("The measurement, as a sentence")]
    ci95_lo: Annotated[float | None, Column("The lower end of the interval that the verdict is based on")]
    ci95_hi: Annotated[float | None, Column("The upper end of that interval")]
    confidence: Annotated[float | None, Column("The coverage of the interval")]
    verdict: Annotated[
        str,
        Column(
            "`reproduced` or `refuted`; of a figure also `exceeded` or `missed`; `inconclusive` if its interval "
            "decides nothing; `not-judged` if the run lacks its cells, or cannot use them"
        ),
    ]
    refuted_by: Annotated[str | None, Column("The result that would refute it")]


@dataclass(frozen=True)
class CellCause:
    """A cell and a cause of its typical sample's time. The causes of a cell add up to that sample's time."""

    run: _Run
    workload: _Workload
    network: _Network
    contender: _Contender
    round: Annotated[int, Column("The round of the typical sample, whose capture is kept")]
    cause: Annotated[str, Column("The cause, such as `propagation`, or `idle`: nothing in flight")]
    seconds: Annotated[float, Column("The time spent on the cause", "s")]


@dataclass(frozen=True)
class Method:
    """A cell and a method of its HTTP requests."""

    run: _Run
    workload: _Workload
    network: _Network
    contender: _Contender
    method: Annotated[str, Column("The method, such as `PROPFIND`")]
    requests: Annotated[int, Column("HTTP requests of this method, median")]


CELLS = Schema("cells", 1, Cell)
SAMPLES = Schema("samples", 1, Sample)
COMPARISONS = Schema("comparisons", 1, Comparison)
CLAIMS = Schema("claims", 1, Claim)
CELL_CAUSES = Schema("cell_causes", 1, CellCause)
METHODS = Schema("methods", 1, Method)

RUN_SCHEMAS: tuple[Schema[Any], ...] = (CELLS, SAMPLES, COMPARISONS, CLAIMS, CELL_CAUSES, METHODS)

_Key = tuple[str, str, str]


def run_tables(document: Node, run: str, samples_file: Path | None) -> dict[str, Table[Any]]:
    """The tables of a document of schema ``longhaul.run/1``. ``samples_file`` is the run's ``samples.csv``, if any."""
    rows: dict[type, list[Any]] = {schema.row: [] for schema in RUN_SCHEMAS}
    for row in _rows(document, run, _logged(samples_file)):
        rows[type(row)].append(row)
    return {schema.name: Table(schema, tuple(rows[schema.row])) for schema in RUN_SCHEMAS}


def _rows(document: Node, run: str, logged: Mapping[_Key, list[dict[str, str]]]) -> Iterator[object]:
    rtts = {network.text("name"): network.number("rtt_s") for network in document.nodes("networks")}
    keys: dict[str, _Key] = {}
    parts = dict(enumerate(document.nodes("parts")))
    for cell in document.nodes("cells"):
        key = (cell.text("workload"), cell.text("network"), cell.text("contender"))
        keys["/".join(key)] = key
        yield _cell(cell, (run, *key), rtts.get(key[1]), parts.get(cell.optional_integer("part") or 0, document))
        yield from _samples(cell, (run, *key), logged.get(key, []))
        yield from _causes(cell, (run, *key))
        for method, requests in cell.numbers_by_name("methods").items():
            yield Method(run, *key, method=method, requests=int(requests))
    for comparison in document.nodes("comparisons"):
        yield _comparison(comparison, run, keys)
    for claim in document.nodes("claims"):
        yield _claim(claim, run)


def _cell(node: Node, key: tuple[str, str, str, str], rtt_s: float | None, part: Node) -> Cell:
    # A run that was not merged has no parts, but records the same of its machine.
    low, high = node.interval("ci95_s")
    why, host, calibration = node.node("why"), part.node("host"), part.node("calibration")
    late_us = calibration.optional_number("delay_error_p99_us") if calibration else None
    return Cell(
        *key,
        model=node.boolean("model"),
        requests_of=node.optional_text("requests_of"),
        status=node.text("status"),
        reason=node.optional_text("reason"),
        samples=len(node.numbers("samples_s")),
        median_s=node.optional_number("median_s"),
        ci95_lo_s=low,
        ci95_hi_s=high,
        floor_s=node.number("floor_s"),
        times_floor=node.optional_number("times_floor"),
        rtt_s=rtt_s,
        round_trips=node.optional_number("round_trips"),
        link_round_trips=node.optional_integer("link_round_trips"),
        bytes=node.optional_integer("bytes"),
        requests=node.optional_integer("requests"),
        connections=node.optional_integer("connections"),
        server_cpu_s=node.optional_number("server_cpu_s"),
        ideal_s=node.optional_number("ideal_s"),
        fcp_s=node.optional_number("fcp_s"),
        lcp_s=node.optional_number("lcp_s"),
        why=why.text("answer") if why else None,
        disturbed=node.optional_text("disturbed"),
        machine=(host.optional_text("name") or None) if host else None,
        late_s=None if late_us is None else late_us / 1e6,
    )


def _samples(node: Node, key: tuple[str, str, str, str], logged: list[dict[str, str]]) -> Iterator[Sample]:
    times = node.numbers("samples_s")
    if len(logged) != len(times):
        # A file that was cut, or edited, or belongs to another run.
        logged = [{"round": str(index)} for index in range(len(times))]
    for seconds, line in zip(times, logged, strict=True):
        yield Sample(
            *key,
            model=node.boolean("model"),
            status=node.text("status"),
            round=_whole(line.get("round")) or 0,
            start_s=_decimal(line.get("start_s")),
            seconds=seconds,
            bytes=_whole(line.get("bytes")),
            requests=_whole(line.get("requests")),
            connections=_whole(line.get("connections")),
            server_cpu_s=_decimal(line.get("server_cpu_s")),
            link_round_trips=_whole(line.get("link_round_trips")),
            added_s=_decimal(line.get("added_s")),
            disturbed={"true": True, "false": False}.get(line.get("disturbed", "")),
        )


def _causes(node: Node, key: tuple[str, str, str, str]) -> Iterator[CellCause]:
    why = node.node("why")
    if why is not None:
        for cause, seconds in why.numbers_by_name("seconds").items():
            yield CellCause(*key, round=why.integer("round"), cause=cause, seconds=seconds)


def _comparison(node: Node, run: str, keys: Mapping[str, _Key]) -> Comparison:
    workload, network, a = _key_of(node.text("a"), keys)
    low, high = node.interval("ci95")
    return Comparison(
        run,
        workload,
        network,
        a=a,
        b=_key_of(node.text("b"), keys)[2],
        ratio=node.number("ratio"),
        ci95_lo=low,
        ci95_hi=high,
        confidence=node.number("confidence"),
        differs=node.boolean("differs"),
    )


def _key_of(path: str, keys: Mapping[str, _Key]) -> _Key:
    """The cell of a comparison. Names may contain slashes, so the cells are asked first."""
    if path in keys:
        return keys[path]
    workload, _, rest = path.partition("/")
    network, _, contender = rest.partition("/")
    return workload, network, contender


def _verdict(node: Node, low: float | None) -> str:
    """The verdict. Earlier builds called a claim without usable cells ``inconclusive`` too; it has no interval."""
    verdict = node.text("verdict")
    rests_on_model = bool(node.value.get("model"))
    is_judged = verdict != "inconclusive" or (node.boolean("in_run") and (low is not None or rests_on_model))
    return verdict if is_judged else "not-judged"


def _claim(node: Node, run: str) -> Claim:
    low, high = node.interval("ci95")
    return Claim(
        run,
        id=node.text("id"),
        source=node.text("source"),
        said=node.text("said"),
        workload=node.text("workload"),
        network=node.text("network"),
        in_run=node.boolean("in_run"),
        model=node.value.get("model") is not None and node.boolean("model"),
        measured=node.text("measured"),
        ci95_lo=low,
        ci95_hi=high,
        confidence=node.optional_number("confidence"),
        verdict=_verdict(node, low),
        refuted_by=node.optional_text("refuted_by"),
    )


def _logged(samples_file: Path | None) -> Mapping[_Key, list[dict[str, str]]]:
    """The lines of ``samples.csv`` by cell; none if the file is missing."""
    lines: defaultdict[_Key, list[dict[str, str]]] = defaultdict(list)
    if samples_file is None or not samples_file.is_file():
        return lines
    try:
        with samples_file.open(newline="", encoding="utf-8", errors="replace") as file:
            for line in csv.DictReader(file):
                lines[line.get("workload", ""), line.get("network", ""), line.get("contender", "")].append(line)
    except csv.Error:
        # What was read until then cannot be trusted either.
        lines.clear()
    return lines


def _decimal(text: str | None) -> float | None:
    try:
        number = float(text or "nan")
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def _whole(text: str | None) -> int | None:
    number = _decimal(text)
    return None if number is None else int(number)
