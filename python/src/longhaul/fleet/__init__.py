"""Many captures or many measurements, on this machine or on a Ray cluster.

>>> from longhaul import fleet
>>> fleet.explain("captures/**/*.pcapng", out="dataset/")  # doctest: +SKIP
>>> fleet.summary("dataset/").servers.to_polars()  # doctest: +SKIP
>>> fleet.sweep("webdav-race", {"network.rtt": ["10ms", "80ms"]}, out="sweep/")  # doctest: +SKIP
"""

from __future__ import annotations

import contextlib
import math
import os
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from ..experiment import Names
from ..progress import FleetProgress, Progress, reporter
from ..run_result import Run
from . import local, on_ray
from . import summary as _summary
from . import sweep as _sweep
from .plan import CapturePath, batches, find_captures
from .store import Store, is_url
from .summary import Summary
from .work import Work

__all__ = ["Explained", "Summary", "explain", "summary", "sweep"]


@dataclass(frozen=True)
class Explained:
    """What a call of :func:`explain` did."""

    #: The dataset.
    out: str
    #: The number of captures that were explained now.
    explained: int
    #: The number of captures without an explanation: they failed now, or before and were not tried again.
    failed: int
    #: The number of captures that had been explained before.
    skipped: int
    elapsed_s: float


def explain(
    captures: CapturePath | Iterable[CapturePath],
    out: str | os.PathLike[str] = "dataset/",
    *,
    format: str | None = None,
    bytes: int | str | None = None,
    what_if: str | None = None,
    ray: bool | None = None,
    workers: int | None = None,
    batch_captures: int = 100,
    batch_bytes: int = 256_000_000,
    timeout: float | None = 600.0,
    retries: int = 3,
    retry_failed: bool = False,
    progress: bool | Callable[[Progress], object] | None = None,
) -> Explained:
    """Explains each capture by itself, and writes the tables as a Parquet dataset. Needs the extra ``arrow``.

    A capture that was explained before is skipped, unless the file has changed. A capture that fails is a row of the
    table ``files`` with its error.

    Args:
        captures: Paths, globs (``**`` for folders of any depth) or URLs that fsspec opens, such as ``s3://…``.
        out: The dataset: a folder or a URL. With several machines, all must reach it.
        format: Override format detection: ``pcap``, ``pcapng``, ``snoop`` or ``tcpdump``.
        bytes: Predict the time of each transfer for another number of bytes, such as ``"18MB"``.
        what_if: Predict the time of each transfer with changes, such as ``"rtt=20ms,nodelay"``.
        ray: Use Ray; by default if it is initialised. True starts it on this machine if it is not.
        workers: Maximum number of batches in flight; by default one per CPU, and with Ray two per CPU of the cluster.
        batch_captures: Maximum number of captures in a batch. A batch is written at once, so it bounds memory.
        batch_bytes: Maximum size of the captures in a batch, unless one alone is larger.
        timeout: Time limit for a capture, in seconds.
        retries: How often a batch is tried again if its worker dies.
        retry_failed: Explain captures again that failed before.
        progress: As for :func:`longhaul.run`.

    Raises:
        FileNotFoundError: A path or a glob names no file.
        ValueError: The dataset was made with another ``format``, ``bytes`` or ``what_if``.
    """
    began = time.monotonic()
    name = os.fspath(out)
    name = name if is_url(name) else os.path.abspath(name)
    options = {"format": format, "bytes": bytes, "what-if": what_if}
    found = find_captures(captures)
    store = Store(name)
    on_cluster = _uses_ray() if ray is None else ray
    if workers is None:
        # Two tasks per CPU, so that a node need not wait for its next one.
        workers = 2 * on_ray.workers() if on_cluster else os.cpu_count() or 1
    elif on_cluster:
        on_ray.workers()
    run = on_ray.run if on_cluster else local.run
    token = store.begin(options)
    failed_before = 0
    todo = {capture.path: capture for capture in found}
    for batch in store.batches():
        again = set()
        for file in batch.files:
            capture = todo.get(file.capture)
            if capture is None:
                continue
            same = (file.version, file.size) == (capture.version, capture.size)
            if same and not (retry_failed and file.error is not None):
                del todo[file.capture]
                failed_before += file.error is not None
            else:
                again.add(file.capture)
        if again:
            store.forget(batch, again)
    # After the loop, a batch of which nothing is left has no commit record.
    store.remove_incomplete(batch.name for batch in store.batches())
    work = Work(name, token, tuple(f"--{key}={value}" for key, value in options.items() if value is not None), timeout)
    workers = max(1, workers)
    # Few captures are divided among all workers.
    most = max(1, min(batch_captures, math.ceil(len(todo) / workers)))
    tasks = batches(todo.values(), most, batch_bytes)
    done = failed = 0
    show = reporter(progress)

    def tell(stage: str) -> None:
        show(FleetProgress(stage, time.monotonic() - began, done, len(todo), "", failed))

    try:
        tell("explaining")
        # Closed at once when interrupted, so that no worker outlives this call.
        with contextlib.closing(run(work, tasks, workers, retries)) as results:  # type: ignore[type-var]
            for result in results:
                done += result.captures
                failed += result.failed
                tell("explaining")
        tell("ended")
    except BaseException:
        # Workers of this machine have ended by now. Those of a cluster may be committing, so the token stays.
        if not on_cluster:
            store.end(token)
        raise
    finally:
        show.close()
    store.end(token)
    skipped = len(found) - len(todo) - failed_before
    return Explained(name, done - failed, failed + failed_before, skipped, time.monotonic() - began)


def summary(out: str | os.PathLike[str] = "dataset/", *, most: int = 100) -> Summary:
    """Adds up a dataset: causes by server, by network and by hour, and the transfers that lost most.

    Args:
        out: The dataset of :func:`explain`.
        most: Maximum number of transfers in ``lost_most``.
    """
    return _summary.summary(os.fspath(out), most)


def sweep(
    experiment: str | os.PathLike[str],
    grid: Mapping[str, Iterable[int | str]],
    out: str | os.PathLike[str] = "sweep/",
    *,
    quick: bool = False,
    network: Names = (),
    workload: Names = (),
    contender: Names = (),
    samples: int | None = None,
    server: str | None = None,
    plain: bool = False,
    timeout: str | None = None,
    seed: int | None = None,
    ray: bool | None = None,
    attempts: int = 3,
    late_limit: float | None = None,
    retries: int = 3,
    progress: bool | Callable[[Progress], object] | None = None,
) -> Run:
    """Measures an experiment with every combination of some settings, and merges the results into one run.

    A block, which is a network and a workload, is measured on one machine with all its contenders in turn, and a
    machine measures one block at a time. A block that was measured before is not measured again: the same call resumes
    an interrupted one. The merged run is in a new folder in ``out/runs``.

    Args:
        experiment: The name of a built-in experiment, or a TOML file.
        grid: Settings and their values: those of networks, as in ``{"network.rtt": ["10ms", "80ms"]}``, and those of
            contenders, as in ``{"rclone.transfers": [1, 4, 16]}``.
        out: The folder of the sweep.
        quick: As for :func:`longhaul.run`, like all arguments down to ``seed``.
        network: Only these networks, or one combination: ``"article rtt=10ms"``.
        workload: Only these workloads.
        contender: Only these contenders.
        samples: Samples per cell.
        server: The server.
        plain: Use HTTP instead of HTTPS.
        timeout: Time limit of one sample.
        seed: Seed of everything random.
        ray: Use Ray; by default if it is initialised. True starts it on this machine if it is not.
        attempts: How often a block is measured, on other nodes if there are any, until its machine is true enough. If
            none was, the best attempt counts, with a :class:`longhaul.LonghaulWarning`.
        late_limit: How late the emulator may be to be true enough, in seconds: the 99th percentile of a packet's delay
            error. By default a twentieth of the network's round-trip time, at least 1 ms.
        retries: How often a block is measured again if its worker or its node dies.
        progress: As for :func:`longhaul.run`.

    Raises:
        HaulError: Some blocks could not be measured. The exception's ``result`` is the :class:`longhaul.Run` of the
            others.
        UsageError: An argument, or the experiment's file, is not accepted.
        LonghaulError: Another program is writing to ``out``, or no node of the cluster may measure.
    """
    return _sweep.sweep(
        experiment,
        grid,
        out,
        on_ray=_uses_ray() if ray is None else ray,
        attempts=attempts,
        late_limit_s=late_limit,
        retries=retries,
        progress=progress,
        selection={"network": network, "workload": workload, "contender": contender},
        arguments={
            "quick": quick,
            "samples": samples,
            "server": server,
            "plain": plain,
            "timeout": timeout,
            "seed": seed,
        },
    )


def _uses_ray() -> bool:
    ray = sys.modules.get("ray")
    return ray is not None and bool(ray.is_initialized())
