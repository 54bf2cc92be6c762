"""Sweeps over real links, with programs, workers and nodes that die."""

from __future__ import annotations

import fcntl
import os
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import pytest
from conftest import LIMIT, run_with_ray

import longhaul
from longhaul import fleet
from longhaul.fleet.parts import Parts
from longhaul.progress import Progress

pytestmark = [
    pytest.mark.usefixtures("links"),
    # On a busy machine that is no error.
    pytest.mark.filterwarnings("default:.*the emulator was.*:longhaul.LonghaulWarning"),
]

SMALL = Path(__file__).with_name("small.toml")
GRID = {"network.rtt": ["4ms", "8ms"]}
NETWORKS = ["near rtt=4ms", "near rtt=8ms"]


def parts(out: Path) -> dict[str, tuple[str, str]]:
    """The network and the start of each part."""
    runs = {folder.name: longhaul.load(folder) for folder in (out / "parts").iterdir()}
    return {name: (run.cells[0].network, run.started) for name, run in runs.items()}


def test_sweep_is_one_run_and_is_resumed(tmp_path: Path) -> None:
    out = tmp_path / "out"

    def stop(progress: Progress) -> None:
        if progress.done:
            raise RuntimeError("enough")

    arguments: dict[str, Any] = {"workload": "list", "samples": 2, "plain": True}
    with pytest.raises(RuntimeError, match="enough"):
        fleet.sweep(SMALL, GRID, out, progress=stop, **arguments)
    before = parts(out)
    assert len(before) == 1
    seen: list[Progress] = []
    run = fleet.sweep(SMALL, GRID, out, progress=seen.append, **arguments)
    assert str(seen[-1]).startswith("1 of 1 blocks")
    after = parts(out)
    assert before.items() < after.items(), "what was measured stays"
    assert sorted(network for network, _ in after.values()) == NETWORKS
    cells = [(cell.network, cell.contender, cell.status, cell.samples) for cell in run.cells]
    assert cells == [(network, name, "ok", 2) for network in NETWORKS for name in ("redirector-h1", "webdrive")]
    assert len(run.samples) == 8
    assert all(cell.machine and cell.late_s and cell.late_s > 0 for cell in run.cells)
    disturbed = {cell.network for cell in run.cells if cell.disturbed}
    assert {comparison.network for comparison in run.comparisons} == set(NETWORKS) - disturbed
    assert run.capture(run.cells[0]) is not None
    assert run.report is not None
    assert run.folder is not None
    haul = longhaul.binary.find_haul()
    for command in (["report"], ["lab", "compare", str(next((out / "parts").iterdir()))]):
        subprocess.run([haul, *command, run.folder], check=True, stdout=subprocess.DEVNULL, timeout=LIMIT)
    # Nothing is measured a third time.
    assert len(fleet.sweep(SMALL, GRID, out, **arguments).cells) == 4
    assert parts(out) == after


def test_late_emulator_is_tried_again_and_marked(tmp_path: Path) -> None:
    seen: list[str] = []
    with pytest.warns(longhaul.LonghaulWarning, match="in the best of 2 attempts, over 0 ms"):
        run = fleet.sweep(
            SMALL,
            {"network.rtt": ["4ms"]},
            tmp_path / "out",
            workload="list",
            contender="webdrive",
            samples=1,
            plain=True,
            attempts=2,
            late_limit=0.0,
            progress=lambda now: seen.append(str(now)),
        )
    assert [cell.status for cell in run.cells] == ["ok"]
    assert len(parts(tmp_path / "out")) == 1
    assert seen[-1].startswith("1 of 1 blocks")


def test_blocks_that_fail_are_listed_and_the_rest_is_a_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = tmp_path / "haul"
    real = longhaul.binary.find_haul()
    broken = '*"near rtt=8ms"*--*) case "$2" in run) echo "haul: no disk" >&2; exit 1;; esac;;'
    script.write_text(f'#!/bin/sh\ncase "$*" in {broken} esac\nexec "{real}" "$@"\n')
    script.chmod(0o755)
    monkeypatch.setenv("LONGHAUL_HAUL", str(script))
    with pytest.raises(longhaul.HaulError, match="1 of 2 blocks could not be measured") as raised:
        fleet.sweep(SMALL, GRID, tmp_path / "out", workload="list", contender="webdrive", samples=1, plain=True)
    assert "list over near rtt=8ms: no disk" in str(raised.value)
    assert isinstance(raised.value.result, longhaul.Run)
    assert [cell.network for cell in raised.value.result.cells] == ["near rtt=4ms"]


def test_sweep_removes_what_killed_workers_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "tmp"))
    (tmp_path / "tmp/longhaul-measure-left/runs").mkdir(parents=True)
    (tmp_path / "tmp/longhaul-measure-used").mkdir()
    used = os.open(tmp_path / "tmp/longhaul-measure-used", os.O_RDONLY)
    fcntl.flock(used, fcntl.LOCK_EX)
    try:
        fleet.sweep(
            SMALL,
            {"network.rtt": ["4ms"]},
            tmp_path / "out",
            workload="list",
            contender="webdrive",
            samples=1,
            plain=True,
        )
    finally:
        os.close(used)
    assert [path.name for path in (tmp_path / "tmp").iterdir()] == ["longhaul-measure-used"]


def test_folder_in_use_and_wrong_settings_are_refused(tmp_path: Path) -> None:
    with Parts(tmp_path).held(), pytest.raises(longhaul.LonghaulError, match="is being written by another program"):
        fleet.sweep(SMALL, GRID, tmp_path)
    with pytest.raises(longhaul.UsageError, match=r"network\.rtt=soon"):
        fleet.sweep(SMALL, {"network.rtt": ["soon"]}, tmp_path)


def test_nodes_and_workers_that_die_lose_and_double_nothing(tmp_path: Path) -> None:
    said = run_with_ray("ray_sweep.py", tmp_path / "out", SMALL)
    assert "no node without the resource; killed a worker and a node; 8 cells" in said
    networks = sorted(network for network, _ in parts(tmp_path / "out").values())
    assert networks == [f"near rtt={rtt}ms" for rtt in (2, 4, 6, 8)]
