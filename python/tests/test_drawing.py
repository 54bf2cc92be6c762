"""What results look like in a notebook."""

from __future__ import annotations

import html.parser
import json
import sys
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from conftest import UPLOAD
from test_documents import CLAIM, RUN, changed

import longhaul
from longhaul import causes, units
from longhaul.binary import run_haul
from longhaul.packets import Packet, read_view

pytestmark = pytest.mark.usefixtures("haul")


class Elements(html.parser.HTMLParser):
    """The names of a document's elements, if each is closed."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.names: list[str] = []
        self.open: list[str] = []
        self.text = ""
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.names.append(tag)
        self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


@pytest.fixture(scope="module")
def explanation() -> longhaul.Explanation:
    return longhaul.explain(UPLOAD)


def test_explanation_shows_its_transfers_and_the_worst_finding(explanation: longhaul.Explanation) -> None:
    shown = Elements(explanation._repr_html_())
    assert "delayed ACKs: 93.1 ms" in shown.text
    assert "The receiver delayed 2 ACKs" in shown.text
    assert "script" not in shown.names


def test_run_shows_cells_and_claims_as_text() -> None:
    def change(run: dict[str, Any]) -> None:
        run["title"] = "<script>alert(1)</script>"
        run["cells"].append({**run["cells"][0], "contender": "<b>", "status": "skipped", "median_s": None, "why": None})
        run["claims"].append({**CLAIM, "refuted_by": "b < a"})

    shown = Elements(longhaul.Run(changed(change))._repr_html_())
    assert "script" not in shown.names
    assert "b" not in shown.names
    for text in ("<script>alert(1)</script>", "1.75 s", "17.5×", "skipped", "✘ refuted", "“a < b & c”", "b < a"):
        assert text in shown.text
    assert "paint" not in shown.text


def test_disturbed_cells_are_marked() -> None:
    def change(run: dict[str, Any]) -> None:
        run["cells"][0]["disturbed"] = "the machine stalled"
        run["cells"].append({**run["cells"][0], "contender": "calm", "disturbed": None})

    run = longhaul.Run(changed(change))
    shown = Elements(run._repr_html_()).text
    assert "⚠ c y=1, disturbed: the machine stalled" in shown
    assert "⚠ calm" not in shown
    pytest.importorskip("altair", reason="the extra `plot` is not installed")
    rows = run.plot_intervals().to_dict()["data"]["values"]
    assert {(row["contender"], row["kind"]) for row in rows} == {("⚠ c y=1", "disturbed"), ("calm", "program")}
    assert {row["contender"] for row in run.plot_causes().to_dict()["data"]["values"]} == {"⚠ c y=1", "calm"}


def test_run_of_pages_shows_their_paints() -> None:
    def change(run: dict[str, Any]) -> None:
        run["cells"][0].update(fcp_s=0.25, lcp_s=0.5)
        run["cells"].append({**run["cells"][0], "contender": "unpainted", "fcp_s": None, "lcp_s": None})

    shown = Elements(longhaul.Run(changed(change))._repr_html_())
    for text in ("first paint", "largest paint", "250 ms", "500 ms"):
        assert shown.text.count(text) == 1


def test_empty_results_are_shown() -> None:
    document = {"schema": "longhaul.explain/1", "captures": [], "connections": [], "pages": []}
    empty = longhaul.Explanation(document)
    assert "0 transfers" in Elements(empty._repr_html_()).text
    for table in empty.tables.values():
        assert table.schema.id in Elements(table._repr_html_()).text
    Elements(longhaul.Run({**RUN, "cells": [], "comparisons": []})._repr_html_())


def test_packets_are_those_of_the_capture(explanation: longhaul.Explanation) -> None:
    packets = explanation.packets()
    assert [packet.number for packet in packets] == [*range(405, 429)]
    assert sum(packet.length for packet in packets) == explanation.transfers[0].bytes
    first = packets[0]
    assert (first.sender, first.sequence, first.length, first.flags) == ("client", 0, 1160, "ACK")
    assert first.time_s == 0
    assert [packet.time_s for packet in packets] == sorted(packet.time_s for packet in packets)
    acknowledged = [packet.acknowledged for packet in packets if packet.sender == "server"]
    assert acknowledged[:3] == [2320, 4640, 6960]


def test_packets_of_a_real_link_are_complete(captured: Callable[[str], Path]) -> None:
    explanation = longhaul.explain(captured("client"))
    by_connection: dict[int, list[Packet]] = defaultdict(list)
    for packet in explanation.packets():
        by_connection[packet.connection].append(packet)
    for transfer in explanation.transfers:
        packets = by_connection[transfer.connection]
        assert len(packets) == explanation.connections[transfer.connection].packets
        assert packets[0].flags == "SYN"
        for sender, least in (("client", 200_000), ("server", 300_000)):
            assert max(one.sequence + one.length for one in packets if one.sender == sender) >= least


def test_titles_cover_all_causes_of_haul() -> None:
    view = read_view(run_haul(["explain", "--html=-", str(UPLOAD)]).stdout)
    names = [cause.text("name") for cause in view.document.nodes("causes")]
    assert len(names) > 10
    assert [name for name in names if causes.colour(name) == causes.colour("of a newer haul")] == []
    assert causes.title("of_a_newer_haul") == "of a newer haul"


def test_charts_are_drawn_without_a_browser(captured: Callable[[str], Path], tmp_path: Path) -> None:
    pytest.importorskip("altair", reason="the extra `plot` is not installed")
    explanation = longhaul.explain(captured("client"))
    run = longhaul.Run(RUN)
    charts = {
        "intervals": run.plot_intervals(),
        "cell causes": run.plot_causes(),
        "transfer causes": explanation.plot_causes(),
        "sequence up": explanation.plot_sequence(explanation.transfers[0]),
        "sequence down": explanation.plot_sequence(explanation.transfers[1]),
    }
    for name, chart in charts.items():
        chart.save(str(tmp_path / f"{name}.svg"))
        assert "<svg" in (tmp_path / f"{name}.svg").read_text()
        json.loads(chart.to_json())
    assert "PUT /up" in (tmp_path / "sequence up.svg").read_text()


def test_chart_without_altair_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "altair", None)
    with pytest.raises(longhaul.MissingExtraError, match=r"the extra `plot` of longhaul: pip install altair"):
        longhaul.Run(RUN).plot_intervals()


def test_sequence_of_a_capture_that_is_gone_is_hauls_error(tmp_path: Path) -> None:
    capture = tmp_path / "gone.txt"
    capture.write_bytes(UPLOAD.read_bytes())
    explanation = longhaul.explain(capture)
    capture.unlink()
    with pytest.raises(longhaul.HaulError, match=r"cannot open the capture .*gone\.txt"):
        explanation.packets()


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0.00 µs"),
        (4.2e-5, "42.0 µs"),
        (0.0931, "93.1 ms"),
        (4.56, "4.56 s"),
        (125, "2 min 05 s"),
        (7300, "2 h 01 min"),
    ],
)
def test_times_have_three_digits(seconds: float, text: str) -> None:
    assert units.duration(seconds) == text
    assert units.interval(0.113, 0.12) == "113–120 ms"
    assert units.interval(0.9, 1.2) == "900 ms – 1.20 s"
    assert units.byte_size(20.4 * 1024**2) == "20.4 MiB"
