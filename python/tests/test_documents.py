"""Documents, good and bad: no program is needed."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest

import longhaul

RUN: dict[str, Any] = {
    "schema": "longhaul.run/1",
    "experiment": "e",
    "started": "2026-11-25T02:41:10Z",
    "networks": [{"name": "n", "rtt_s": 0.018}],
    "cells": [
        {
            "workload": "w/x",
            "network": "n",
            "contender": "c y=1",
            "model": False,
            "status": "ok",
            "reason": None,
            "samples_s": [1.5, 2],
            "median_s": 1.75,
            "ci95_s": [1.5, 2],
            "bytes": 7,
            "requests": None,
            "connections": 1,
            "round_trips": 97.2,
            "floor_s": 0.1,
            "times_floor": 17.5,
            "why": {"round": 1, "seconds": {"idle": 2}, "answer": "idle"},
            "some_new_field": [1, 2],
        }
    ],
    "comparisons": [
        {"a": "w/x/n/c y=1", "b": "w/x/n/other", "ratio": 2, "ci95": [1, 3], "confidence": 0.9, "differs": False}
    ],
    "claims": [],
}

CLAIM: dict[str, Any] = {
    "id": "c",
    "source": "s",
    "said": "a < b & c",
    "measured": "it is",
    "verdict": "refuted",
    "workload": "w/x",
    "network": "n",
    "in_run": True,
    "ci95": None,
}

SAMPLES = """workload,network,contender,model,round,start_s,seconds,bytes
w/x,n,c y=1,false,0,0.5,1.5,7
w/x,n,c y=1,false,2,9.5,2,nan
"""


def folder(path: Path, document: object, samples: str | None = None) -> Path:
    path.mkdir(exist_ok=True)
    (path / "run.json").write_text(json.dumps(document))
    if samples is not None:
        (path / "samples.csv").write_text(samples)
    return path


def changed(change: Any) -> dict[str, Any]:
    document = copy.deepcopy(RUN)
    change(document)
    return document


def test_run_of_an_earlier_build_is_read(tmp_path: Path) -> None:
    run = longhaul.load(folder(tmp_path / "20260101-000000-e", RUN))
    (cell,) = run.cells
    assert (run.id, run.title, cell.workload, cell.contender) == ("20260101-000000-e", "e", "w/x", "c y=1")
    assert (cell.ci95_lo_s, cell.ci95_hi_s, cell.rtt_s, cell.requests, cell.why) == (1.5, 2, 0.018, None, "idle")
    assert [(sample.round, sample.seconds, sample.start_s) for sample in run.samples] == [(0, 1.5, None), (1, 2, None)]
    assert run.comparisons[0].a == "c y=1"
    assert len(run.methods) == 0


def test_paints_and_refutations_are_read(tmp_path: Path) -> None:
    def change(run: dict[str, Any]) -> None:
        run["cells"][0].update(fcp_s=0.25, lcp_s=0.5)
        run["claims"] = [{**CLAIM, "refuted_by": "the opposite"}, CLAIM]

    run = longhaul.load(folder(tmp_path / "r", changed(change)))
    assert (run.cells[0].fcp_s, run.cells[0].lcp_s) == (0.25, 0.5)
    assert [claim.refuted_by for claim in run.claims] == ["the opposite", None]
    earlier = longhaul.load(folder(tmp_path / "earlier", RUN)).cells[0]
    assert (earlier.fcp_s, earlier.lcp_s) == (None, None)


@pytest.mark.parametrize(
    ("claim", "verdict"),
    [
        ({"verdict": "not-judged"}, "not-judged"),
        # Earlier builds had one word for both.
        ({"verdict": "inconclusive", "ci95": [0.9, 1.1]}, "inconclusive"),
        ({"verdict": "inconclusive", "ci95": None}, "not-judged"),
        ({"verdict": "inconclusive", "ci95": None, "in_run": False, "model": True}, "not-judged"),
        ({"verdict": "inconclusive", "ci95": None, "model": True}, "inconclusive"),
        ({"verdict": "reproduced", "ci95": None}, "reproduced"),
    ],
)
def test_claim_that_could_not_be_judged_is_not_inconclusive(claim: dict[str, Any], verdict: str) -> None:
    run = longhaul.Run(changed(lambda run: run.update(claims=[{**CLAIM, **claim}])))
    assert run.claims[0].verdict == verdict


def test_claims_are_counted_by_verdict() -> None:
    verdicts = ["reproduced", "reproduced", "refuted", "inconclusive", "not-judged", "not-judged", "not-judged"]
    claims = [{**CLAIM, "verdict": verdict, "ci95": [1, 2]} for verdict in verdicts]
    shown = longhaul.Run(changed(lambda run: run.update(claims=claims)))._repr_html_()
    assert "7 claims: 2 reproduced, 1 refuted, 1 inconclusive, 3 not judged." in shown


def test_samples_file_adds_its_columns(tmp_path: Path) -> None:
    run = longhaul.load(folder(tmp_path / "r", RUN, SAMPLES))
    assert [(sample.round, sample.start_s, sample.bytes) for sample in run.samples] == [(0, 0.5, 7), (2, 9.5, None)]


@pytest.mark.parametrize("samples", ["", "\x00\xff,\n", SAMPLES[:-20], SAMPLES + SAMPLES, "workload\n\n"])
def test_samples_file_that_does_not_match_is_ignored(samples: str, tmp_path: Path) -> None:
    run = longhaul.load(folder(tmp_path / "r", RUN, samples))
    assert [sample.seconds for sample in run.samples] == [1.5, 2]


def test_nan_is_an_unknown_value(tmp_path: Path) -> None:
    file = tmp_path / "nan.json"
    file.write_text(json.dumps(changed(lambda run: run["cells"][0].update(median_s=float("nan")))))
    assert longhaul.load(file).cells[0].median_s is None
    file.write_text(json.dumps(changed(lambda run: run["cells"][0].update(floor_s=float("inf")))))
    with pytest.raises(longhaul.DocumentError, match=r"nan\.json: cells\[0\]\.floor_s is missing"):
        longhaul.load(file)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda run: run.update(schema="longhaul.run/2"), "schema longhaul.run/2, .* install a newer longhaul"),
        (lambda run: run.update(schema="longhaul.explain/1"), "expected longhaul.run/1"),
        (lambda run: run.pop("schema"), "has no field `schema`"),
        (lambda run: run.update(cells=3), "cells is not an array"),
        (lambda run: run.update(cells=[3]), r"cells\[0\] is not an object"),
        (lambda run: run["cells"][0].pop("network"), r"cells\[0\]\.network is missing"),
        (lambda run: run["cells"][0].update(samples_s=["1"]), r"cells\[0\]\.samples_s\[0\] is not a number"),
        (lambda run: run["cells"][0].update(bytes=1.5), r"cells\[0\]\.bytes is not a whole number"),
        (lambda run: run["cells"][0].update(model=0), r"cells\[0\]\.model is not true or false"),
        (lambda run: run["cells"][0].update(ci95_s=[1]), r"cells\[0\]\.ci95_s is not a pair"),
    ],
)
def test_wrong_document_is_named_with_its_place(change: Any, sentence: str, tmp_path: Path) -> None:
    with pytest.raises(longhaul.DocumentError, match=rf"run\.json.*{sentence}"):
        longhaul.load(folder(tmp_path / "r", changed(change)))


@pytest.mark.parametrize("text", ["", "{", "[]", "null", '"\\ud800"', "\xff"])
def test_file_without_an_object_is_refused(text: str, tmp_path: Path) -> None:
    file = tmp_path / "x.json"
    file.write_bytes(text.encode("latin-1"))
    with pytest.raises(longhaul.DocumentError, match=r"x\.json is not"):
        longhaul.load(file)
    with pytest.raises(longhaul.DocumentError, match=r"x\.json is not"):
        longhaul.load_explanation(file)


def test_folder_without_results_says_why(tmp_path: Path) -> None:
    with pytest.raises(longhaul.DocumentError, match=r"has no run\.json; `haul race`"):
        longhaul.load(tmp_path)
    folder(tmp_path / "20260101-000000-e", RUN)
    folder(tmp_path / "20260102-000000-e", RUN)
    with pytest.raises(longhaul.DocumentError, match=r"holds 2 runs; load one of them, such as .*20260102-000000-e"):
        longhaul.load(tmp_path)
    (tmp_path / "samples.csv").write_text("")
    with pytest.raises(longhaul.DocumentError, match="in progress or was killed"):
        longhaul.load(tmp_path)
    with pytest.raises(FileNotFoundError):
        longhaul.load(tmp_path / "nowhere")


def test_explanation_is_loaded_from_its_document(tmp_path: Path) -> None:
    file = tmp_path / "explanation.json"
    file.write_text('{"schema": "longhaul.explain/1", "captures": ["a"], "connections": [], "pages": []}')
    explanation = longhaul.load_explanation(file)
    assert explanation.captures == ("a",)
    assert len(explanation.transfers) == 0
    with pytest.raises(longhaul.DocumentError, match=r"has the schema longhaul\.explain/1"):
        longhaul.load(file)
