"""Experiments over real links."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from conftest import LIMIT

import longhaul

pytestmark = pytest.mark.usefixtures("links")

SMALL = Path(__file__).with_name("small.toml")


@pytest.fixture(scope="module")
def progress() -> list[longhaul.Progress]:
    return []


@pytest.fixture(scope="module")
def small(progress: list[longhaul.Progress], tmp_path_factory: pytest.TempPathFactory) -> longhaul.Run:
    """A whole run, and its progress."""
    runs = tmp_path_factory.mktemp("runs of a test") / "runs"
    return longhaul.run(SMALL, workload="upload", results=runs, progress=progress.append)


def test_run_has_one_row_per_cell_and_sample(small: longhaul.Run) -> None:
    assert (small.experiment, small.title) == ("small", "A small race")
    assert {(cell.workload, cell.network, cell.status) for cell in small.cells} == {("upload", "near", "ok")}
    assert len(small.cells) == 2
    for cell in small.cells:
        samples = [sample for sample in small.samples if sample.contender == cell.contender]
        assert len(samples) == cell.samples == 3
        assert sorted(sample.seconds for sample in samples)[1] == cell.median_s
        assert {sample.round for sample in samples} == {0, 1, 2}
        # Each upload takes at least one round trip.
        assert cell.rtt_s == 0.01
        assert all(sample.seconds > 0.03 for sample in samples)
        assert all(sample.start_s is not None and sample.bytes and sample.requests for sample in samples)
        assert cell.model


def test_run_has_comparisons_claims_causes_and_methods(small: longhaul.Run) -> None:
    # What a busy machine has disturbed is not compared.
    is_calm = not any(cell.disturbed for cell in small.cells)
    assert len(small.comparisons) == is_calm
    for comparison in small.comparisons:
        assert {comparison.a, comparison.b} == {"redirector-h1", "webdrive"}
        assert (comparison.workload, comparison.network) == ("upload", "near")
        assert comparison.ratio > 1
    (claim,) = small.claims
    assert (claim.id, claim.said, claim.in_run) == ("locks-cost", "Locks cost time.", True)
    methods = {method.method: method.requests for method in small.methods if method.contender == "redirector-h1"}
    assert methods["LOCK"] == 3
    sums: dict[tuple[str, int], float] = defaultdict(float)
    for cause in small.causes:
        sums[cause.contender, cause.round] += cause.seconds
    times = {(sample.contender, sample.round): sample.seconds for sample in small.samples}
    assert len(sums) == 2
    for key, seconds in sums.items():
        assert seconds == pytest.approx(times[key], rel=1e-3)


def test_progress_reaches_the_end(small: longhaul.Run, progress: list[longhaul.Progress]) -> None:
    assert small.folder is not None
    assert {one.planned for one in progress} == {6}
    assert [one.done for one in progress] == sorted(one.done for one in progress)
    assert progress[-1].done > 0
    assert "samples" in str(progress[-1]) or progress[-1].stage != "measuring"
    assert any(one.cell.startswith("upload/near/") for one in progress)


def test_results_are_stored_and_load_the_same(small: longhaul.Run) -> None:
    assert small.folder is not None
    assert small.report is not None
    assert small.id == small.folder.name
    loaded = longhaul.load(small.folder)
    assert loaded.tables == small.tables
    assert longhaul.load(small.folder / "run.json").tables == small.tables


def test_samples_without_their_file_lack_what_only_it_has(small: longhaul.Run, tmp_path: Path) -> None:
    assert small.folder is not None
    shutil.copy(small.folder / "run.json", tmp_path / "copy.json")
    copy = longhaul.load(tmp_path / "copy.json")
    assert copy.id == "copy"
    assert copy.folder is None
    assert [sample.seconds for sample in copy.samples] == [sample.seconds for sample in small.samples]
    assert {sample.bytes for sample in copy.samples} == {None}
    with pytest.raises(FileNotFoundError, match="has no capture of upload/near/"):
        copy.explain(copy.cells[0])


def test_capture_of_a_cell_is_explained(small: longhaul.Run) -> None:
    explanation = small.explain(small.cells[0])
    assert any(row.what.startswith(("PUT", "PROPFIND", "OPTIONS")) for row in explanation.transfers)


_MINE = """
import pathlib, sys, urllib.request
folder, url, log = sys.argv[1:]
with open(log, "a") as runs:
    runs.write("one\\n")
for file in pathlib.Path(folder).iterdir():
    request = urllib.request.Request(url + file.name, file.read_bytes(), method="PUT")
    urllib.request.urlopen(request, timeout=60).close()
"""


def test_own_program_takes_part_after_its_warmup(tmp_path: Path) -> None:
    mine, log = tmp_path / "mine.py", tmp_path / "runs of mine"
    mine.write_text(_MINE)
    command = f"mine='{sys.executable}' '{mine}' {{dir}} {{url}} '{log}'"
    runs = tmp_path / "runs"
    run = longhaul.run(SMALL, workload="upload", contender="mine", samples=2, warmup=1, with_=command, results=runs)
    (cell,) = run.cells
    assert (cell.contender, cell.status, cell.samples) == ("mine", "ok", 2)
    # A busy machine repeats samples.
    repeated = run.document["cells"][0]["repeated"]
    assert log.read_text().splitlines() == ["one"] * (1 + 2 + repeated)


def test_race_takes_own_programs(tmp_path: Path) -> None:
    mine = tmp_path / "mine.py"
    mine.write_text(_MINE)
    command = f"'{sys.executable}' '{mine}' {{dir}} {{url}} '{tmp_path / 'log'}'"
    race = longhaul.race(
        quick=True,
        network="lan",
        contender=["one", "two"],
        samples=1,
        plain=True,
        server="embedded",
        with_=[f"one={command}", f"two={command}"],
        results=tmp_path / "runs",
    )
    assert {(cell.contender, cell.status) for cell in race.cells} == {("one", "ok"), ("two", "ok")}


def test_concurrent_runs_get_their_own_results(tmp_path: Path) -> None:
    def one(samples: int) -> longhaul.Run:
        return longhaul.run(SMALL, workload="list", samples=samples, results=tmp_path / "runs", progress=False)

    with ThreadPoolExecutor(3) as pool:
        runs = list(pool.map(one, [1, 2, 3], timeout=LIMIT))
    assert [max(cell.samples for cell in run.cells) for run in runs] == [1, 2, 3]
    assert len({run.folder for run in runs}) == 3
    assert all(run.folder is not None for run in runs)


def test_mistake_in_the_experiment_names_its_place(tmp_path: Path) -> None:
    wrong = tmp_path / "wrong experiment.toml"
    wrong.write_text(SMALL.read_text().replace('"webdrive"]', '"webdriv"]', 1))
    with pytest.raises(longhaul.HaulError, match=r"wrong experiment\.toml:3:\d+: unknown contender `webdriv`"):
        longhaul.run(wrong, results=tmp_path / "runs")
    assert not (tmp_path / "runs").exists()


def test_unknown_names_are_usage_errors(tmp_path: Path) -> None:
    for arguments, sentence in (
        ({"network": "x"}, "unknown network `x`"),
        ({"samples": 0}, "1 to 100 samples, not 0"),
        ({"server": "x"}, "unknown server `x`"),
        ({"sweep": {"rclone.nope": [1]}}, "nope"),
    ):
        with pytest.raises(longhaul.UsageError, match=sentence):
            longhaul.race(quick=True, results=tmp_path / "runs", **arguments)


def test_run_that_measures_nothing_raises_the_reasons(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(longhaul.HaulError, match=r"nothing could be measured(.|\n)*curl: ") as raised:
        longhaul.race(quick=True, contender="curl", network="lan", server="embedded", results=tmp_path / "runs")
    assert isinstance(raised.value.result, longhaul.Run)
    assert [cell.status for cell in raised.value.result.cells] == ["skipped"]


_ENDLESS = """
import sys, longhaul
try:
    longhaul.run(sys.argv[1], samples=100, results=sys.argv[2], progress=lambda now: print(now.done, flush=True))
except KeyboardInterrupt as interrupt:
    print("interrupted:", *getattr(interrupt, "__notes__", []), flush=True)
"""


def _endless(runs: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", _ENDLESS, str(SMALL), str(runs)],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        start_new_session=True,
    )


def _wait(condition: Callable[[], object], what: str) -> None:
    end = time.monotonic() + LIMIT
    while not condition():
        assert time.monotonic() < end, f"no {what} within {LIMIT} s"
        time.sleep(0.05)


def _family(parent: int) -> set[int]:
    """The processes below a process."""
    found: set[int] = set()
    parents = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parents[int(entry.name)] = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            except OSError:
                continue
    waiting = [parent]
    while waiting:
        parent = waiting.pop()
        children = [pid for pid, its in parents.items() if its == parent and pid not in found]
        found.update(children)
        waiting += children
    return found


def _is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.parametrize("by", ["the program", "the terminal"])
def test_interrupt_ends_haul_and_keeps_the_samples(by: str, tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    with _endless(runs) as python:
        try:
            assert python.stdout is not None
            for line in python.stdout:
                if int(line) > 1:
                    break
            family = _family(python.pid)
            assert family, "who sees no process cannot see what is left either"
            # A terminal interrupts the whole process group, and haul with it.
            (os.killpg if by == "the terminal" else os.kill)(python.pid, signal.SIGINT)
            rest = python.stdout.read()
            assert python.wait(LIMIT) == 0
        finally:
            python.kill()
    _wait(lambda: not any(map(_is_alive, family)), "end of haul")
    assert "interrupted:" in rest
    if sys.version_info >= (3, 11):
        assert "interrupted; the results so far" in rest
    (folder,) = runs.iterdir()
    assert len(longhaul.load(folder).samples) > 1


@pytest.mark.parametrize("killed", ["the group", "Python alone"])
def test_kernel_that_is_killed_takes_haul_along(killed: str, tmp_path: Path) -> None:
    with _endless(tmp_path / "runs") as python:
        assert python.stdout is not None
        assert python.stdout.readline()
        family = _family(python.pid)
        assert family
        # Jupyter kills the group when it restarts a kernel; the kernel's out-of-memory killer, or Ray, one process.
        (os.killpg if killed == "the group" else os.kill)(python.pid, signal.SIGKILL)
        python.wait(LIMIT)
    _wait(lambda: not any(map(_is_alive, family)), "end of haul")


def test_function_that_raises_ends_haul(tmp_path: Path) -> None:
    family: set[int] = set()

    def fail(_: longhaul.Progress) -> None:
        family.update(_family(os.getpid()))
        raise RuntimeError("no more")

    with pytest.raises(RuntimeError, match="no more"):
        longhaul.run(SMALL, samples=100, results=tmp_path / "runs", progress=fail)
    assert family
    _wait(lambda: not any(map(_is_alive, family)), "end of haul")
