"""An experiment that is larger than one machine: measured block by block, and merged into one run."""

from __future__ import annotations

import hashlib
import os
import time
import warnings
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from ..binary import Argument, run_haul, version
from ..document import check_schema
from ..errors import HaulError, LonghaulWarning
from ..experiment import Names, options
from ..progress import FleetProgress, Progress, RunFolder, reporter
from ..run_result import Run
from .machines import Machines, RayNodes, ThisMachine
from .measure import Block, Measured, Measurement
from .parts import Parts

__all__ = ["sweep"]

Grid = Mapping[str, Iterable[int | str]]

_PLAN_SCHEMA = "longhaul.plan/1"


def sweep(
    experiment: str | os.PathLike[str],
    grid: Grid,
    out: str | os.PathLike[str],
    on_ray: bool,
    attempts: int,
    late_limit_s: float | None,
    retries: int,
    progress: bool | Callable[[Progress], object] | None,
    selection: Mapping[str, Names],
    arguments: Mapping[str, Any],
) -> Run:
    """See :func:`longhaul.fleet.sweep`."""
    path, folder = os.fspath(experiment), Path(os.path.abspath(out))
    text = Path(path).read_text(encoding="utf-8") if os.path.isfile(path) else None
    varied = {key: [str(value) for value in values] for key, values in grid.items()}
    selection = {key: [names] if isinstance(names, str) else list(names) for key, names in selection.items()}
    # Contenders are the same in all blocks, and so they are part of what each measures.
    measured = {**arguments, "contender": selection["contender"], "sweep": varied}
    measurement = Measurement(os.path.basename(path) if text else path, text, measured, late_limit_s)
    parts = Parts(folder)
    with parts.held():
        blocks = _plan(path, measurement, {**selection, "sweep": varied}, arguments)
        todo = [block for block in blocks if not parts.has(block)]
        machines: Machines = RayNodes(measurement, retries) if on_ray and todo else ThisMachine(measurement)
        failed = _measure_all(machines, todo, parts, attempts, reporter(progress))
        there = [str(parts.folder(block)) for block in blocks if parts.has(block)]
        merged = _merge(path, there, folder / "runs", varied) if there else None
    if failed:
        listed = "".join(f"\n  {block}: {error}" for block, error in failed.items())
        count = f"{len(failed)} of {len(blocks)} blocks"
        raise HaulError(f"{count} could not be measured; the same call tries them again{listed}", result=merged)
    assert merged is not None, "a plan has at least one block"
    return merged


def _measure_all(
    machines: Machines, todo: list[Block], parts: Parts, attempts: int, show: Callable[[Progress], object]
) -> dict[Block, str]:
    """Measures and stores blocks, and returns those that failed, with the reasons."""
    began = time.monotonic()
    tried: dict[Block, list[Measured]] = {block: [] for block in todo}
    failed: dict[Block, str] = {}
    done = 0

    def tell(stage: str) -> None:
        now = time.monotonic() - began
        show(FleetProgress(stage, now, done, len(todo), "", len(failed), unit="blocks"))

    try:
        tell("measuring")
        for block in todo:
            machines.start(block)
        while done < len(todo):
            block, measured = machines.next()
            tried[block].append(measured)
            if measured.error is None and not measured.is_true and len(tried[block]) < attempts:
                machines.start(block, avoid={attempt.node for attempt in tried[block]})
                continue
            best = min(tried[block], key=lambda attempt: (attempt.folder is None, attempt.late_s))
            if best.folder is None:
                failed[block] = str(best.error)
            else:
                _warn_if_late(block, best, len(tried[block]))
                parts.commit(block, best.folder)
            tried[block].clear()
            done += 1
            tell("measuring")
        tell("ended")
    finally:
        machines.close()
        close = getattr(show, "close", None)
        if close is not None:
            close()
    return failed


def _warn_if_late(block: Block, best: Measured, attempts: int) -> None:
    if not best.is_true:
        late, limit = (f"{seconds * 1e3:.2g} ms" for seconds in (best.late_s, best.limit_s))
        sentence = f"the emulator was {late} late (99th percentile) in the best of {attempts} attempts, over {limit}"
        warnings.warn(f"{block}: {sentence}", LonghaulWarning, stacklevel=4)


def _plan(
    experiment: str, measurement: Measurement, selection: Mapping[str, Any], arguments: Mapping[str, Any]
) -> list[Block]:
    """The blocks of an experiment."""
    part = {"quick": arguments["quick"], "samples": arguments["samples"]}
    output = run_haul(["lab", "plan", "--json=-", *options(**selection, **part), "--", experiment])
    if output.status:
        raise output.error()
    plan = check_schema(output.document(), _PLAN_SCHEMA, "the plan")
    same = [version(), measurement.experiment, measurement.text, sorted(map(repr, measurement.arguments.items()))]
    blocks = []
    for node in plan.nodes("blocks"):
        network, workload = node.text("network"), node.text("workload")
        digest = hashlib.sha256(repr([*same, network, workload]).encode()).hexdigest()[:16]
        blocks.append(Block(digest, network, workload, plan.integer("samples")))
    return blocks


def _merge(experiment: str, parts: list[str], runs: Path, varied: Grid) -> Run:
    folder = RunFolder(runs, Path(experiment).stem)
    merge: list[Argument] = ["lab", "merge", "--json=-", f"--results={runs}", *options(sweep=varied)]
    output = run_haul([*merge, "--", experiment, *parts])
    if output.status:
        raise output.error()
    document = output.document()
    return Run(document, file=folder.of(document) or "run")
