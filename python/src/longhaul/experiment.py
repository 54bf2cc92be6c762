"""Running experiments over emulated links."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from .binary import Argument, Output, run_haul
from .progress import Progress, RunFolder, reporter
from .run_result import Run

__all__ = ["Names", "options", "race", "run"]

#: One name, or several.
Names = str | Iterable[str]


def race(
    *,
    quick: bool = False,
    network: Names = (),
    workload: Names = (),
    contender: Names = (),
    samples: int | None = None,
    warmup: int | None = None,
    with_: Names = (),
    sweep: Mapping[str, Iterable[int | str]] | None = None,
    server: str | None = None,
    plain: bool = False,
    timeout: str | None = None,
    seed: int | None = None,
    results: str | os.PathLike[str] = "runs",
    progress: bool | Callable[[Progress], object] | None = None,
) -> Run:
    """Races WebDAV clients over emulated links: the experiment ``webdav-race``, with the arguments of :func:`run`."""
    return run(
        "webdav-race",
        quick=quick,
        network=network,
        workload=workload,
        contender=contender,
        samples=samples,
        warmup=warmup,
        with_=with_,
        sweep=sweep,
        server=server,
        plain=plain,
        timeout=timeout,
        seed=seed,
        results=results,
        progress=progress,
    )


def run(
    experiment: str | os.PathLike[str],
    *,
    quick: bool = False,
    network: Names = (),
    workload: Names = (),
    contender: Names = (),
    samples: int | None = None,
    warmup: int | None = None,
    with_: Names = (),
    sweep: Mapping[str, Iterable[int | str]] | None = None,
    server: str | None = None,
    plain: bool = False,
    timeout: str | None = None,
    seed: int | None = None,
    results: str | os.PathLike[str] = "runs",
    progress: bool | Callable[[Progress], object] | None = None,
) -> Run:
    """Runs an experiment and returns what it measured. The results are also stored in a new folder in ``results``.

    Ctrl-C, or a notebook's stop button, ends the run; what was measured until then is stored.

    Args:
        experiment: The name of a built-in experiment (``haul lab list``), or a TOML file.
        quick: Run only the part that the experiment marks as quick.
        network: Run only these networks.
        workload: Run only these workloads.
        contender: Run only these contenders.
        samples: Samples per cell, 1 to 100. Default: the experiment's.
        warmup: Runs of each cell before its first sample, which do not count, 0 to 100. Default: the experiment's,
            else 0.
        with_: Add a contender of your own by its command, as in ``"./mine put {dir} {url}"`` or
            ``"mine=./mine put {dir} {url}"``, or several; ``{dir}`` has the files to upload, or gets those to download.
            ``NAME.KEY=COMMAND`` gives it a command for one purpose, as ``--with`` of ``haul lab run`` does.
        sweep: Run a contender once per value of a setting, as in ``{"rclone.transfers": [1, 4, 16]}``; or over each
            network once per value, as in ``{"network.rtt": ["10ms", "80ms"]}``.
        server: ``apache``, ``nginx``, ``embedded``, ``pages``, ``nginx-pages`` or ``unbound``. Default: the first of
            the experiment's that is installed.
        plain: Use HTTP instead of HTTPS.
        timeout: Time limit of one sample, preparation included, such as ``"30s"``. Default: ``"5min"``.
        seed: Seed of everything random: contents of files, order of contenders. Default: 1.
        results: Folder of the results of all runs.
        progress: True or False; or a function that is called with each new :class:`Progress`; or None, which shows the
            progress in a notebook and on a terminal only.

    Raises:
        HaulError: The run failed, or nothing could be measured. If there are results nevertheless, the exception's
            ``result`` is a :class:`Run`.
        UsageError: An argument, or the experiment's file, is not accepted.
    """
    experiment, results = os.fspath(experiment), Path(results)
    part = options(network, workload, contender, sweep, quick, samples, warmup, with_)
    command: list[Argument] = ["lab", "run", "--json=-", f"--results={results}", *part]
    for name, value in (("server", server), ("timeout", timeout), ("seed", seed)):
        if value is not None:
            command.append(f"--{name}={value}")
    if plain:
        command.append("--plain")
    folder = RunFolder(results, Path(experiment).stem)
    show = reporter(progress)

    def on_wait() -> None:
        now = folder.progress()
        if now is not None:
            show(now)

    try:
        output = run_haul([*command, "--", experiment], on_wait)
    finally:
        show.close()
    return _result(output, folder)


def options(
    network: Names = (),
    workload: Names = (),
    contender: Names = (),
    sweep: Mapping[str, Iterable[int | str]] | None = None,
    quick: bool = False,
    samples: int | None = None,
    warmup: int | None = None,
    with_: Names = (),
) -> list[str]:
    """The options that select a part of an experiment."""
    selected = [f"--network={name}" for name in _several(network)]
    selected += [f"--workload={name}" for name in _several(workload)]
    selected += [f"--contender={name}" for name in _several(contender)]
    selected += [f"--with={command}" for command in _several(with_)]
    selected += [f"--sweep={setting}={','.join(map(str, values))}" for setting, values in (sweep or {}).items()]
    selected += ["--quick"] if quick else []
    selected += [] if samples is None else [f"--samples={samples}"]
    selected += [] if warmup is None else [f"--warmup={warmup}"]
    return selected


def _several(names: Names) -> list[str]:
    return [names] if isinstance(names, str) else list(names)


def _result(output: Output, folder: RunFolder) -> Run:
    """The run, or its exception."""
    if not output.stdout:
        raise output.error()
    document = output.document()
    result = Run(document, file=folder.of(document) or "run")
    if output.status:
        reasons = dict.fromkeys(f"{cell.contender}: {cell.reason}" for cell in result.cells if cell.reason)
        sentence = "\n  ".join([*output.messages[-1:], *reasons])
        raise output.error(result, sentence)
    return result
