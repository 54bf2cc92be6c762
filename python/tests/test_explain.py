"""Explanations of real captures."""

from __future__ import annotations

import os
import pickle
import shutil
from collections import defaultdict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from conftest import LIMIT, UPLOAD

import longhaul

pytestmark = pytest.mark.usefixtures("haul")


def test_printed_trace_shows_the_delayed_acks_of_the_document() -> None:
    explanation = longhaul.explain(UPLOAD, bytes="18MB")
    (transfer,) = explanation.transfers
    assert (transfer.direction, transfer.cause) == ("upload", "delayed_ack")
    assert transfer.lost_s > 0.8 * transfer.duration_s
    # 18 MB would take minutes with delayed ACKs, and seconds without.
    assert transfer.predicted_s is not None
    assert transfer.predicted_s > 100
    finding = explanation.findings[0]
    assert finding.cause == "delayed_ack"
    assert finding.packets == (416,)
    assert any("deferred" in fix.how for fix in explanation.fixes if fix.finding == 0)
    assert (explanation.connections[0].client, explanation.connections[0].mss) == ("host22:1742", 1160)
    # A printed SYN of Solaris shows less than is needed to tell its system.
    assert {row.applies for row in explanation.fixes if row.system.endswith("receiver")} == {None}
    assert explanation.messages == ()


def test_causes_add_up_to_the_duration_on_a_real_link(captured: Callable[[str], Path]) -> None:
    explanation = longhaul.explain(captured("client"))
    sums: dict[tuple[str, int, int], float] = defaultdict(float)
    for row in explanation.causes:
        sums[row.capture, row.connection, row.transfer] += row.seconds
    assert [row.what for row in explanation.transfers] == ["PUT /up", "GET /down"]
    assert {(row.client_system, row.server_system) for row in explanation.connections} == {("Linux", "Linux")}
    # Those for another system come last, and none is for systems that are not known.
    for finding in explanation.findings:
        applies = [
            row.applies
            for row in explanation.fixes
            if (row.connection, row.transfer, row.finding) == (finding.connection, finding.transfer, finding.finding)
        ]
        known = [one for one in applies if one is not None]
        assert len(known) == len(applies)
        assert known == sorted(known, reverse=True)
    for transfer in explanation.transfers:
        key = (transfer.capture, transfer.connection, transfer.transfer)
        assert sums[key] == pytest.approx(transfer.duration_s, rel=1e-6)
        assert transfer.duration_s > 0.02


def test_captures_of_both_ends_are_paired(captured: Callable[[str], Path]) -> None:
    one = longhaul.explain(captured("client"))
    both = longhaul.explain([captured("client"), captured("server")])
    assert len(both.captures) == 2
    assert len(both.transfers) == len(one.transfers)


def test_filter_keeps_matching_transfers(captured: Callable[[str], Path]) -> None:
    explanation = longhaul.explain(captured("client"), transfer="GET")
    assert [row.what for row in explanation.transfers] == ["GET /down"]


def test_unknown_capture_raises_hauls_sentence() -> None:
    with pytest.raises(longhaul.HaulError, match=r"^cannot open the capture nowhere\.pcap: No such file"):
        longhaul.explain("nowhere.pcap")


def test_wrong_option_is_a_usage_error() -> None:
    with pytest.raises(longhaul.UsageError, match="`x` is not a time; write it like `18ms`") as raised:
        longhaul.explain(UPLOAD, what_if="rtt=x")
    assert raised.value.status == 2
    assert "Usage:" not in str(raised.value)


def test_no_captures_is_a_value_error() -> None:
    with pytest.raises(ValueError, match="no captures"):
        longhaul.explain([])


def test_one_unreadable_capture_of_several_raises_with_the_others_result(tmp_path: Path) -> None:
    garbage = tmp_path / "garbage.pcap"
    garbage.write_text("no packets")
    with pytest.raises(longhaul.HaulError, match="is not a pcap") as raised:
        longhaul.explain([garbage, UPLOAD])
    assert isinstance(raised.value.result, longhaul.Explanation)
    assert len(raised.value.result.transfers) == 1


def test_unreadable_captures_are_skipped_with_a_warning(tmp_path: Path) -> None:
    garbage = tmp_path / "garbage.pcap"
    garbage.write_text("no packets")
    with pytest.warns(longhaul.LonghaulWarning, match="is not a pcap"):
        explanation = longhaul.explain([garbage, UPLOAD], skip_unreadable=True)
    assert len(explanation.transfers) == 1
    assert "is not a pcap" in explanation.messages[0]
    with pytest.raises(longhaul.HaulError, match="is not a pcap"):
        longhaul.explain(garbage, skip_unreadable=True)


def test_truncated_capture_is_explained_with_a_warning(captured: Callable[[str], Path], tmp_path: Path) -> None:
    whole = captured("client").read_bytes()
    cut = tmp_path / "cut.pcapng"
    cut.write_bytes(whole[: len(whole) // 2])
    with pytest.warns(longhaul.LonghaulWarning):
        explanation = longhaul.explain(cut)
    assert len(explanation.transfers) > 0


@pytest.mark.parametrize("name", ["a b.txt", "-x.txt", "-", "--json", "ü'\"\n.txt"])
def test_strange_file_names_are_read(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copy(UPLOAD, tmp_path / name)
    monkeypatch.chdir(tmp_path)
    explanation = longhaul.explain(name)
    assert explanation.captures == ("./-" if name == "-" else name,)
    assert explanation.transfers[0].capture == explanation.captures[0]


def test_file_name_that_is_not_utf8_is_read(tmp_path: Path) -> None:
    path = os.fsencode(tmp_path) + b"/\xff.txt"
    shutil.copy(os.fsencode(UPLOAD), path)
    for given in (path, os.fsdecode(path), Path(os.fsdecode(path))):
        assert longhaul.explain(given).captures[0].endswith("/\ufffd.txt")


def test_calls_run_concurrently() -> None:
    with ThreadPoolExecutor(8) as pool:
        explanations = list(pool.map(longhaul.explain, [UPLOAD] * 16, timeout=LIMIT))
    assert all(explanation.document == explanations[0].document for explanation in explanations)


def test_explanations_and_errors_can_be_pickled() -> None:
    explanation = longhaul.explain(UPLOAD)
    copy = pickle.loads(pickle.dumps(explanation))
    assert copy.transfers == explanation.transfers
    error = longhaul.UsageError("no", status=2, result=explanation)
    copied = pickle.loads(pickle.dumps(error))
    assert (type(copied), str(copied), copied.status) == (longhaul.UsageError, "no", 2)
    assert copied.result.transfers == explanation.transfers
