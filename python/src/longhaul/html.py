"""Results as HTML, for notebooks. It needs neither scripts nor other packages, and is shown offline."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING, Any

from . import causes, units

if TYPE_CHECKING:
    from .capture_tables import Finding, Transfer, TransferCause
    from .explanation import Explanation
    from .run_result import Run
    from .run_tables import Cell, Claim
    from .table import Table

__all__ = ["of_explanation", "of_run", "of_table"]

#: Rows of a table, transfers of an explanation, and claims of a run that are shown.
ROWS, TRANSFERS, CLAIMS = 10, 10, 30

_VERDICTS = {"reproduced": "✔", "exceeded": "▲", "missed": "▼", "refuted": "✘", "inconclusive": "?", "not-judged": "–"}


def of_table(table: Table[Any]) -> str:
    """The first rows of a table."""
    fields = table.schema.fields
    head = [f"{field.name} ({field.unit})" if field.unit else field.name for field in fields]
    rows = [[escape(_value(getattr(row, field.name))) for field in fields] for row in table.rows[:ROWS]]
    more = f"<p>{len(table) - ROWS} more rows</p>" if len(table) > ROWS else ""
    return f"<p><code>{escape(table.schema.id)}</code></p>{_table(head, rows)}{more}"


def _value(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, tuple):
        return ", ".join(map(str, value))
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def of_run(run: Run) -> str:
    """The contenders of each workload and network, fastest first, and the claims."""
    parts = [f"<h3>{escape(run.title)}</h3><p>{escape(run.question)}</p>"]
    places: dict[tuple[str, str], list[Cell]] = {}
    for cell in run.cells:
        places.setdefault((cell.workload, cell.network), []).append(cell)
    for (workload, network), cells in places.items():
        about = filter(None, (_description(run, "workloads", workload), _description(run, "networks", network)))
        parts.append(
            f"<h4>{escape(f'{workload}, {network}')}</h4><p>{escape(', '.join(about))}</p>{_cells(run, cells)}"
        )
    if run.claims:
        judged = [claim for claim in run.claims if claim.verdict != "not-judged"]
        rows = [
            [
                f"{_VERDICTS.get(claim.verdict, '')} {escape(claim.verdict)}{' (model)' if claim.model else ''}",
                f"“{escape(claim.said)}”",
                escape(claim.measured),
                escape(claim.refuted_by or ""),
            ]
            for claim in judged[:CLAIMS]
        ]
        head = ["verdict", "sentence", "measured", "would be refuted if"]
        parts.append(f"<h4>Claims</h4><p>{_counted(run.claims)}</p>{_table(head, rows) if rows else ''}")
    return "".join(parts)


def _counted(claims: Iterable[Claim]) -> str:
    """The number of claims by verdict, in the words of the terminal and the reports."""
    verdicts = Counter(claim.verdict for claim in claims)
    total = verdicts.total()
    counts = ", ".join(f"{verdicts[one]} {one.replace('-', ' ')}" for one in _VERDICTS if verdicts[one])
    return f"{total} {'claim' if total == 1 else 'claims'}: {counts}."


def _description(run: Run, kind: str, name: str) -> str:
    """The description of a workload or network."""
    entries = run.document.get(kind) or []
    return next((str(entry.get("description") or "") for entry in entries if entry.get("name") == name), "")


def _cells(run: Run, cells: Sequence[Cell]) -> str:
    measured = sorted((cell for cell in cells if cell.median_s is not None), key=lambda cell: cell.median_s or 0)
    full = max((cell.ci95_hi_s or cell.median_s or 0 for cell in measured), default=0) or 1
    seconds: dict[str, dict[str, float]] = {}
    for row in run.causes:
        if (row.workload, row.network) == (cells[0].workload, cells[0].network):
            seconds.setdefault(row.contender, {})[row.cause] = row.seconds
    # The paints of pages in a browser, beside the time, which ends with the load event.
    paints: list[tuple[str, Callable[[Cell], float | None]]] = [
        ("first paint", lambda cell: cell.fcp_s),
        ("largest paint", lambda cell: cell.lcp_s),
    ]
    paints = [(title, of) for title, of in paints if any(of(cell) is not None for cell in measured)]
    rows = []
    for cell in measured:
        median = cell.median_s or 0
        ends = (cell.ci95_lo_s, cell.ci95_hi_s)
        spent = seconds.get(cell.contender) or {"not_explained": median}
        rows.append(
            [
                escape(f"{'⚠ ' if cell.disturbed else ''}{cell.contender}{' (model)' if cell.model else ''}"),
                units.duration(median),
                "" if ends[0] is None or ends[1] is None else units.interval(ends[0], ends[1]),
                *("" if paint is None else units.duration(paint) for paint in (of(cell) for _, of in paints)),
                "" if cell.times_floor is None else units.factor(cell.times_floor),
                "" if cell.requests is None else str(cell.requests),
                _bar(spent, median / full),
            ]
        )
    rows += [
        [escape(cell.contender), escape(f"{cell.status}: {cell.reason}"), *[""] * (4 + len(paints))]
        for cell in cells
        if cell not in measured
    ]
    shown = {cause: 0.0 for spent in seconds.values() for cause in spent}
    head = ["contender", "time", "range", *(title for title, _ in paints)]
    head += ["times the floor", "requests", "where the time went"]
    disturbed = [cell for cell in cells if cell.disturbed]
    notes = "".join(
        f"<p>⚠ {escape(cell.contender)}, disturbed: {escape(cell.disturbed or '')}</p>" for cell in disturbed
    )
    return _table(head, rows) + notes + _legend(shown)


def of_explanation(explanation: Explanation) -> str:
    """The transfers that lost most time, and why."""
    ranked = sorted(explanation.transfers, key=lambda transfer: -transfer.lost_s)[:TRANSFERS]
    seconds: dict[tuple[str, int, int], dict[str, float]] = {}
    for row in explanation.causes:
        seconds.setdefault(_key(row), {})[row.cause] = row.seconds
    full = max((transfer.duration_s for transfer in ranked), default=0) or 1
    rows, shown = [], {}
    for transfer in ranked:
        spent = seconds.get(_key(transfer), {})
        shown.update(spent)
        rows.append(
            [
                escape(transfer.what or transfer.direction),
                escape(f"{transfer.client} → {transfer.server}"),
                units.duration(transfer.duration_s),
                units.byte_size(transfer.bytes),
                ""
                if transfer.cause is None
                else f"{escape(causes.title(transfer.cause))}: {units.duration(transfer.lost_s)}",
                _bar(spent, transfer.duration_s / full),
            ]
        )
    names = explanation.captures
    title = (
        f"{len(explanation.transfers)} transfers of {', '.join(names) if len(names) < 4 else f'{len(names)} captures'}"
    )
    head = ["transfer", "connection", "time", "bytes", "largest loss", "where the time went"]
    parts = [f"<p>{escape(title)}</p>{_table(head, rows)}{_legend(shown)}"]
    for finding in explanation.findings:
        if ranked and _key(finding) == _key(ranked[0]):
            parts.append(f"<p><b>{escape(causes.title(finding.cause))}</b>: {escape(finding.why)}</p>")
            break
    return "".join(parts)


def _key(row: Transfer | TransferCause | Finding) -> tuple[str, int, int]:
    return row.capture, row.connection, row.transfer


def _bar(seconds: Mapping[str, float], width: float) -> str:
    """A bar of causes. Its width is a fraction of the column."""
    total = sum(seconds.values()) or 1
    words = ", ".join(
        f"{causes.title(cause)} {units.share(part / total)}"
        for cause, part in sorted(seconds.items(), key=lambda one: -one[1])
        if part >= 0.02 * total
    )
    pieces = "".join(
        f'<span title="{escape(f"{causes.title(cause)}: {units.duration(seconds[cause])}")}" '
        f'style="height:1em;background:{causes.colour(cause)};width:{100 * seconds[cause] / total:.2f}%"></span>'
        for cause in causes.ordered(seconds)
    )
    style = f"display:flex;width:{max(100 * width, 0.5):.1f}%"
    bar = f'<div role="img" aria-label="{escape(words)}" style="{style}">{pieces}</div>'
    return f'<div style="width:20em">{bar}</div>'


def _legend(seconds: Iterable[str]) -> str:
    entries = "".join(
        f'<span style="margin-right:1em;white-space:nowrap"><span style="display:inline-block;width:.8em;height:.8em;'
        f'background:{causes.colour(cause)}"></span> {escape(causes.title(cause))}</span>'
        for cause in causes.ordered(seconds)
    )
    return f'<p style="font-size:smaller">{entries}</p>' if entries else ""


def _table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """A table of cells that are HTML already; the head is text."""
    left = 'style="text-align:left"'
    titles = "".join(f"<th {left}>{escape(title)}</th>" for title in head)
    body = "".join(f"<tr>{''.join(f'<td {left}>{cell}</td>' for cell in row)}</tr>" for row in rows)
    return f"<table><thead><tr>{titles}</tr></thead><tbody>{body}</tbody></table>"
