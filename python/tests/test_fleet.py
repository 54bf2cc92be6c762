"""Explaining many captures, with workers and machines that die."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest
from conftest import LIMIT, ROOT, UPLOAD, run_with_ray

import longhaul
from longhaul import fleet
from longhaul.binary import ENVIRONMENT_VARIABLE
from longhaul.capture_tables import CAPTURE_SCHEMAS
from longhaul.fleet.store import Store
from longhaul.fleet.summary import network
from longhaul.progress import FleetProgress, Progress

TRACES = [UPLOAD, *sorted((ROOT / "crates/explain/tests/traces").glob("*.txt"))]


def copies(folder: Path, count: int) -> list[str]:
    folder.mkdir(exist_ok=True)
    paths = [folder / f"{index:03}.txt" for index in range(count)]
    for index, path in enumerate(paths):
        shutil.copy(TRACES[index % len(TRACES)], path)
    return [str(path) for path in paths]


def rows(out: Path, table: str) -> list[dict[str, Any]]:
    store = Store(str(out))
    found = []
    for batch in store.batches():
        columns = [field.name for field in next(one for one in CAPTURE_SCHEMAS if one.name == table).fields]
        found += store.rows(batch, table, columns)
    # Nothing else is in the dataset: other readers see the same.
    assert len(list((out / table).glob("*"))) == sum(table in (*batch.tables, "files") for batch in store.batches())
    return sorted(found, key=str)


def assert_complete(out: Path, paths: list[str]) -> None:
    """The dataset has exactly the rows of the plain calls."""
    files = [file.capture for batch in Store(str(out)).batches() for file in batch.files]
    assert sorted(files) == sorted(paths)
    plain = [longhaul.explain(path) for path in paths]
    for table in ("transfers", "causes", "findings", "fixes", "connections"):
        expected = [
            {**row.__dict__, **({"packets": list(row.packets)} if table == "findings" else {})}
            for one in plain
            for row in one.table(table)
        ]
        assert rows(out, table) == sorted(expected, key=str), table


@pytest.fixture
def slow_haul(haul: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A haul that takes a while, so that something can happen meanwhile."""
    script = tmp_path / "slow-haul"
    waits = "while IFS= read -r -d '' path; do sleep 0.1; printf '%s\\0' \"$path\"; done"
    script.write_text(f'#!/bin/bash\n{waits} | "{haul}" "$@"\n')
    script.chmod(0o755)
    monkeypatch.setenv(ENVIRONMENT_VARIABLE, str(script))
    return script


def children(of: int, text: str) -> list[int]:
    """Child processes with this text in their command line."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and text in (entry / "cmdline").read_text():
                parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
                found += [int(entry.name)] if parent == of else []
        except OSError:
            continue
    return found


def test_dataset_has_the_rows_of_plain_calls_and_done_captures_are_skipped(haul: Path, tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    paths = copies(tmp_path / "in", 20)
    out = tmp_path / "out"
    seen: list[Progress] = []
    first = fleet.explain(tmp_path / "in" / "*.txt", out, workers=2, batch_captures=3, progress=seen.append)
    assert (first.explained, first.failed, first.skipped) == (20, 0, 0)
    assert isinstance(seen[-1], FleetProgress)
    assert str(seen[-1]).startswith("20 of 20 captures, ")
    assert_complete(out, paths)
    again = fleet.explain(paths, out, workers=2)
    assert (again.explained, again.skipped) == (0, 20)
    total = fleet.summary(out, most=4)
    causes = [cause for path in paths for cause in longhaul.explain(path).causes]
    for table in (total.servers, total.networks, total.hours):
        assert sum(row.seconds for row in table) == pytest.approx(sum(cause.seconds for cause in causes))
        assert sum(row.transfers for row in table) == len(causes)
    assert len(total.lost_most) == 4
    assert total.lost_most[0].lost_s == max(row["lost_s"] for row in rows(out, "transfers"))


def test_changed_capture_replaces_its_rows(haul: Path, tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    paths = copies(tmp_path / "in", 5)
    out = tmp_path / "out"
    fleet.explain(paths, out, workers=1)
    Path(paths[1]).write_bytes(UPLOAD.read_bytes())
    assert fleet.explain(paths, out, workers=1).explained == 1
    assert_complete(out, paths)
    with pytest.raises(ValueError, match="was made with the options"):
        fleet.explain(paths, out, what_if="rtt=20ms")


def test_broken_capture_is_a_row_with_its_error(haul: Path, tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    paths = copies(tmp_path / "in", 5)
    Path(paths[2]).write_text("no capture")
    out = tmp_path / "out"
    done = fleet.explain(paths, out, workers=2, batch_captures=2)
    assert (done.explained, done.failed, done.skipped) == (4, 1, 0)
    again = fleet.explain(paths, out, workers=2)
    assert (again.explained, again.failed, again.skipped) == (0, 1, 4)
    total = fleet.summary(out)
    assert [file.capture for file in total.failed] == [paths[2]]
    assert f"{paths[2]} is not a pcap" in str(total.failed[0].error)
    shutil.copy(UPLOAD, paths[2])
    assert fleet.explain(paths, out, workers=2).failed == 0
    assert_complete(out, paths)


def test_capture_that_ends_haul_is_a_row_with_its_error(
    haul: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("pyarrow")
    paths = copies(tmp_path / "in", 5)
    fragile = tmp_path / "fragile-haul"
    fatal = f"[ \"$path\" = '{paths[2]}' ] && kill -9 $$ $BASHPID"
    reads = f"while IFS= read -r -d '' path; do {fatal}; printf '%s\\0' \"$path\"; done"
    fragile.write_text(f'#!/bin/bash\n{reads} | "{haul}" "$@"\n')
    fragile.chmod(0o755)
    monkeypatch.setenv(ENVIRONMENT_VARIABLE, str(fragile))
    done = fleet.explain(paths, tmp_path / "out", workers=1)
    assert (done.explained, done.failed) == (4, 1)
    (failed,) = fleet.summary(tmp_path / "out").failed
    assert (failed.capture, failed.error) == (paths[2], "haul was killed by SIGKILL")


def test_time_limit_and_retry_of_failed_captures(
    slow_haul: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("pyarrow")
    paths = copies(tmp_path / "in", 2)
    out = tmp_path / "out"
    slow_haul.write_text("#!/bin/sh\nexec sleep 60\n")
    assert fleet.explain(paths, out, workers=2, timeout=0.2).failed == 2
    assert fleet.summary(out).failed[0].error == "the time limit of 0.2 s passed"
    monkeypatch.undo()
    again = fleet.explain(paths, out, workers=2)
    assert (again.explained, again.failed, again.skipped) == (0, 2, 0)
    assert fleet.explain(paths, out, workers=2, retry_failed=True).explained == 2
    assert_complete(out, paths)


def test_killed_worker_loses_and_doubles_nothing(
    slow_haul: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("pyarrow")
    paths = copies(tmp_path / "in", 24)
    killed: list[int] = []

    def kill(progress: Progress) -> None:
        if progress.done and len(killed) < 2:
            killed.append(children(os.getpid(), "fleet.worker")[0])
            os.kill(killed[-1], signal.SIGKILL)

    done = fleet.explain(paths, tmp_path / "out", workers=2, batch_captures=3, progress=kill)
    assert len(killed) == 2
    assert (done.explained, done.failed) == (24, 0)
    monkeypatch.undo()
    assert_complete(tmp_path / "out", paths)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_interrupted_program_is_resumed(
    number: int, slow_haul: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("pyarrow")
    paths = copies(tmp_path / "in", 24)
    out = tmp_path / "out"
    script = (
        "import sys; from longhaul import fleet; fleet.explain(sys.argv[2:], sys.argv[1], workers=2, batch_captures=3)"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "python/src")}
    with subprocess.Popen(
        [sys.executable, "-c", script, out, *paths], env=environment, stderr=subprocess.PIPE
    ) as process:
        ends = time.monotonic() + LIMIT
        while len(list((out / "files").glob("*.parquet"))) < 2 and time.monotonic() < ends:
            time.sleep(0.02)
        workers = children(process.pid, "fleet.worker")
        process.send_signal(number)
        process.wait(LIMIT)
    assert len(workers) == 2
    if number == signal.SIGINT:
        assert not any(Path(f"/proc/{worker}").exists() for worker in workers)
    monkeypatch.undo()
    done = fleet.explain(paths, out, workers=2)
    assert done.skipped >= 6
    assert done.explained == 24 - done.skipped > 0
    assert_complete(out, paths)


def test_remote_captures_and_dataset_are_read_and_written_by_url(haul: Path, tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    pytest.importorskip("fsspec")
    paths = copies(tmp_path / "in", 5)
    Path(paths[4]).write_text("no capture")
    url = f"file://{tmp_path}"
    done = fleet.explain(f"{url}/in/*.txt", f"{url}/out", workers=2, batch_captures=2)
    assert (done.explained, done.failed) == (4, 1)
    total = fleet.summary(f"{url}/out")
    assert str(total.failed[0].error).startswith(f"file://{paths[4]} is not a pcap")
    again = fleet.explain(f"{url}/in/*.txt", f"{url}/out", workers=1)
    assert (again.explained, again.failed, again.skipped) == (0, 1, 4)


def test_path_without_a_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="no file matches it"):
        fleet.explain(tmp_path / "*.pcap", tmp_path / "out")


def test_hours_are_those_of_the_transfers(captured: Callable[[str], Path], tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    dated = captured("client")
    [*_, connection] = longhaul.explain(dated).connections
    assert connection.start_s is not None
    assert abs(connection.start_s - os.stat(dated).st_mtime) < LIMIT
    fleet.explain([dated, UPLOAD], tmp_path / "out")
    hour = f"{datetime.fromtimestamp(connection.start_s, timezone.utc):%Y-%m-%dT%HZ}"
    found = {row.hour for row in fleet.summary(tmp_path / "out").hours}
    assert hour in found
    # The printed capture has no dates.
    assert None in found


def test_network_of_a_client() -> None:
    assert network("192.0.2.77:4711") == "192.0.2.0/24"
    assert network("[2001:db8:1:2::3]:443") == "2001:db8:1::/48"
    assert network("host22:1742") == "host22"


def test_node_that_dies_loses_and_doubles_nothing(
    slow_haul: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("pyarrow")
    paths = copies(tmp_path / "in", 45)
    said = run_with_ray("ray_cluster.py", tmp_path / "out", *paths)
    assert "explained 45, failed 0, nodes removed 1" in said
    monkeypatch.undo()
    assert_complete(tmp_path / "out", paths)
    assert Counter(file.error for batch in Store(str(tmp_path / "out")).batches() for file in batch.files) == {None: 45}
