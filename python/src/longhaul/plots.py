"""Charts with Altair. They need the extra ``plot``, and are drawn by the notebook itself or without a browser."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from . import causes
from .export import need
from .packets import Interval, Packet

if TYPE_CHECKING:
    import altair

    from .explanation import Explanation
    from .run_result import Run

__all__ = ["cell_causes", "intervals", "sequence", "transfer_causes"]

#: Transfers and packets that one chart shows.
TRANSFERS, PACKETS = 20, 5000

WIDTH = 560

_KINDS = {"program": "#4a7fb5", "model": "#9aa1ab", "disturbed": "#e0b4a0"}


def intervals(run: Run) -> altair.FacetChart:
    """The median of each cell with its interval, its samples as dots, and the floor as a dashed line.

    Disturbed cells have a colour of their own and a sign before their name, because their times are too long.
    """
    alt = need("altair", "plot")
    rows: list[dict[str, Any]] = [
        {
            **_place(run, cell),
            "median": cell.median_s,
            "low": cell.ci95_lo_s,
            "high": cell.ci95_hi_s,
            "floor": cell.floor_s,
        }
        for cell in run.cells
        if cell.status == "ok"
    ]
    kinds = [kind for kind in _KINDS if any(row["kind"] == kind for row in rows)]
    rows += [{**_place(run, one), "sample": one.seconds} for one in run.samples if one.status == "ok"]
    y = alt.Y("contender:N", sort=alt.EncodingSortField("median", op="min"), title=None)
    kind = alt.Color("kind:N", scale=_scale(alt, {kind: _KINDS[kind] for kind in kinds}), title=None)
    base = alt.Chart(width=WIDTH).encode(y=y)
    layers = alt.layer(
        base.mark_bar(opacity=0.35, height=12).encode(x=_seconds(alt, "median"), color=kind),
        base.mark_rule(strokeWidth=2).encode(
            x=_seconds(alt, "low"), x2="high:Q", tooltip=["contender:N", "median:Q", "low:Q", "high:Q"]
        ),
        base.mark_circle(size=18, color="#10253a", opacity=0.8).encode(x=_seconds(alt, "sample")),
        alt.Chart().mark_rule(strokeDash=[4, 3], color="#545c67").encode(x=_seconds(alt, "min(floor)")),
        data=alt.Data(values=rows),
    )
    return _facet(alt, layers, run, run.title)


def cell_causes(run: Run) -> altair.FacetChart:
    """What the typical sample of each cell was spent on."""
    alt = need("altair", "plot")
    rows = [{**_place(run, row), **_spent(row.cause, row.seconds)} for row in run.causes]
    y = alt.Y("contender:N", sort=alt.EncodingSortField("seconds", op="sum"), title=None)
    chart = alt.Chart(alt.Data(values=rows), width=WIDTH).mark_bar(height=14)
    chart = chart.encode(x=_seconds(alt, "sum(seconds)"), y=y, **_coloured(alt, rows))
    return _facet(alt, chart, run, f"{run.title}: where the time went")


def transfer_causes(explanation: Explanation) -> altair.Chart:
    """What the longest transfers were spent on, in the order of the captures."""
    alt = need("altair", "plot")
    longest = sorted(explanation.transfers, key=lambda transfer: -transfer.duration_s)[:TRANSFERS]
    names = {
        (one.capture, one.connection, one.transfer): f"{one.connection}.{one.transfer} {one.what or one.direction}"
        for one in longest
    }
    rows = [
        {"transfer": names[key], **_spent(row.cause, row.seconds)}
        for row in explanation.causes
        if (key := (row.capture, row.connection, row.transfer)) in names
    ]
    y = alt.Y("transfer:N", sort=[names[key] for key in sorted(names)], title=None, axis=alt.Axis(labelLimit=300))
    bars = alt.Chart(alt.Data(values=rows), title="Where the time went", width=WIDTH).mark_bar(height=14)
    chart: altair.Chart = bars.encode(x=_seconds(alt, "sum(seconds)"), y=y, **_coloured(alt, rows))
    return chart


def sequence(packets: Sequence[Packet], spent: Sequence[Interval], title: str, sender: str) -> altair.LayerChart:
    """A time–sequence graph: the data of one side, and the acknowledgements and window of the other.

    The colours behind it are what each moment was spent on. As in tcptrace, a segment is a vertical line from its first
    byte to its last.
    """
    alt = need("altair", "plot")
    packets = packets[:PACKETS]
    begin = min((packet.time_s for packet in packets), default=0)
    end = max((packet.time_s for packet in packets), default=0)
    data, acknowledgements = [], []
    for packet in packets:
        row = {**asdict(packet), "ms": 1e3 * (packet.time_s - begin)}
        if packet.sender == sender and packet.length:
            kind = "retransmission" if packet.retransmission else "data"
            data.append({**row, "end": packet.sequence + packet.length, "kind": kind})
        elif packet.sender != sender and packet.acknowledged is not None:
            acknowledgements.append({**row, "edge": packet.acknowledged + packet.window})
    bands = [
        {
            **_spent(one.cause, one.to_s - one.from_s),
            "ms": 1e3 * (max(one.from_s, begin) - begin),
            "to": 1e3 * (min(one.to_s, end) - begin),
        }
        for one in spent
        if one.to_s > begin and one.from_s < end
    ]
    x = alt.X("ms:Q", title="time (ms)", scale=alt.Scale(nice=False))
    low, high = min((row["sequence"] for row in data), default=0), max((row["end"] for row in data), default=1)
    y = {"scale": alt.Scale(domain=[low, high + 0.05 * (high - low)], clamp=True, nice=False), "title": "bytes"}
    line = alt.Chart(alt.Data(values=acknowledgements))
    layers = alt.layer(
        alt.Chart(alt.Data(values=bands)).mark_rect(opacity=0.35).encode(x=x, x2="to:Q", **_coloured(alt, bands)),
        line.mark_line(interpolate="step-after", color="#009e73").encode(x=x, y=alt.Y("acknowledged:Q", **y)),
        line.mark_line(interpolate="step-after", color="#e69f00", strokeDash=[4, 2]).encode(
            x=x, y=alt.Y("edge:Q", **y)
        ),
        alt.Chart(alt.Data(values=data))
        .mark_rule(strokeWidth=2)
        .encode(
            x=x,
            y=alt.Y("sequence:Q", **y),
            y2="end:Q",
            stroke=alt.Stroke(
                "kind:N", scale=_scale(alt, {"data": "#16191d", "retransmission": "#c8410b"}), title=None
            ),
            tooltip=["number:Q", "ms:Q", "sequence:Q", "length:Q", "flags:N"],
        ),
        title=alt.Title(
            title, subtitle=f"segments of the {sender}, what is acknowledged (green), window edge (dashed)"
        ),
        width=WIDTH,
    )
    chart: altair.LayerChart = layers.resolve_scale(color="independent")
    return chart


def _place(run: Run, row: Any) -> dict[str, Any]:
    key = (row.workload, row.network, row.contender)
    (cell,) = (cell for cell in run.cells if (cell.workload, cell.network, cell.contender) == key)
    kind = "disturbed" if cell.disturbed else "model" if cell.model else "program"
    name = f"⚠ {cell.contender}" if cell.disturbed else cell.contender
    return {"place": f"{row.workload}, {row.network}", "contender": name, "kind": kind}


def _facet(alt: Any, chart: Any, run: Run, title: str) -> altair.FacetChart:
    """A chart for each workload and network, in the order of the run."""
    places = list(dict.fromkeys(f"{cell.workload}, {cell.network}" for cell in run.cells))
    facet = alt.Facet("place:N", title=None, sort=places, header=alt.Header(labelAnchor="start"))
    charts = chart.facet(facet=facet, columns=1, title=title)
    made: altair.FacetChart = charts.resolve_scale(x="independent", y="independent")
    return made


def _seconds(alt: Any, field: str) -> Any:
    return alt.X(f"{field}:Q", title="time (s)")


def _spent(cause: str, seconds: float) -> dict[str, Any]:
    return {"cause": causes.title(cause), "name": cause, "seconds": seconds}


def _coloured(alt: Any, rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The colours of a bar's parts, and their order."""
    names = causes.ordered(row["name"] for row in rows)
    for row in rows:
        row["rank"] = names.index(row["name"])
    return {
        "color": alt.Color(
            "cause:N", scale=_scale(alt, {causes.title(name): causes.colour(name) for name in names}), title=None
        ),
        "order": alt.Order("rank:Q"),
        "tooltip": ["cause:N", alt.Tooltip("seconds:Q", format=".4f")],
    }


def _scale(alt: Any, colours: Mapping[str, str]) -> Any:
    return alt.Scale(domain=list(colours), range=list(colours.values()))
