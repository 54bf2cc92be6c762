"""The progress of a run, from the file ``live.json`` in its folder: schema ``longhaul.live/1``."""

from __future__ import annotations

import html
import importlib
import json
import re
import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

__all__ = ["FleetProgress", "Progress", "RunFolder", "reporter"]

_LIVE_SCHEMA = "longhaul.live/1"


@dataclass(frozen=True)
class Progress:
    """How far a run is."""

    #: ``calibrating``, ``measuring``, ``explaining`` or ``ended``.
    stage: str
    #: Seconds since the run began.
    elapsed_s: float
    #: The number of samples taken, and the number planned.
    done: int
    planned: int
    #: The cell that is running, as workload/network/contender; empty between cells.
    cell: str

    @property
    def left_s(self) -> float | None:
        """The time left in seconds, from the mean time of the samples so far; None before the first."""
        return self.elapsed_s / self.done * (self.planned - self.done) if self.done else None

    def __str__(self) -> str:
        if self.stage != "measuring":
            return {"calibrating": "calibrating the emulator", "explaining": "explaining the captures"}.get(
                self.stage, f"{self.done} samples in {_time(self.elapsed_s)}"
            )
        left = "" if self.left_s is None else f", about {_time(self.left_s)} left"
        return f"{self.done} of {self.planned} samples, {_time(self.elapsed_s)} elapsed{left}  {self.cell}".rstrip()


@dataclass(frozen=True)
class FleetProgress(Progress):
    """How far a fleet is: ``done`` of ``planned`` captures, or blocks of a sweep."""

    #: The number of those that failed.
    failed: int = 0
    #: What is counted.
    unit: str = "captures"

    def __str__(self) -> str:
        left = "" if self.left_s is None or self.stage == "ended" else f", about {_time(self.left_s)} left"
        failed = f", {self.failed} failed" if self.failed else ""
        return f"{self.done} of {self.planned} {self.unit}{failed}, {_time(self.elapsed_s)} elapsed{left}"


def _time(seconds: float) -> str:
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{seconds:02}" if hours else f"{minutes}:{seconds:02}"


class RunFolder:
    """The folder of a run that has just been started: a new one in the folder of all runs.

    haul prints its name only at the end. While the run goes on, the first new folder of this experiment with a live
    file is taken for it. If another process starts the same experiment at the same moment, that may be the other's
    folder, and the progress that of the other run. The results are found by their content.
    """

    def __init__(self, runs: Path, experiment: str) -> None:
        self._runs = runs
        # With a number at the end if several runs started in the same second.
        self._name = re.compile(rf"\d{{8}}-\d{{6}}-{re.escape(experiment)}(-\d+)?")
        self._old = self._names()
        self._live: Path | None = None
        self._changed = 0

    def progress(self) -> Progress | None:
        """The progress, if it has changed since the last call."""
        if self._live is None:
            self._live = next((file for file in map(self._live_file, self._new()) if file.is_file()), None)
        if self._live is None:
            return None
        try:
            changed = self._live.stat().st_mtime_ns
            if changed == self._changed:
                return None
            document = json.loads(self._live.read_bytes())
            self._changed = changed
            return _progress(document)
        except (OSError, ValueError, LookupError, TypeError):
            # The run has ended; or another version of haul has written the file. Neither may end the run.
            return None

    def of(self, document: dict[str, Any]) -> Path | None:
        """The ``run.json`` that holds this document, if it was written."""
        for name in self._new():
            file = self._runs / name / "run.json"
            try:
                if json.loads(file.read_bytes()) == document:
                    return file
            except (OSError, ValueError):
                continue
        return None

    def _live_file(self, name: str) -> Path:
        return self._runs / name / "live.json"

    def _new(self) -> list[str]:
        return sorted(name for name in self._names() - self._old if self._name.fullmatch(name))

    def _names(self) -> set[str]:
        try:
            return {entry.name for entry in self._runs.iterdir()}
        except OSError:
            return set()


def _progress(document: Any) -> Progress | None:
    """The progress in a live file; None for a schema of another version."""
    if not isinstance(document, dict) or document.get("schema") != _LIVE_SCHEMA:
        return None
    running = (cell for cell in document["cells"] if cell["status"] == "running")
    names = ("/".join((cell["workload"], cell["network"], cell["contender"])) for cell in running)
    return Progress(
        stage=document["stage"],
        elapsed_s=document["elapsed_s"],
        done=document["done"],
        planned=document["planned"],
        cell=next(names, ""),
    )


class _Silent:
    def __call__(self, progress: Progress) -> None:
        pass

    def close(self) -> None:
        pass


@dataclass(frozen=True)
class _Function(_Silent):
    function: Callable[[Progress], object]

    def __call__(self, progress: Progress) -> None:
        self.function(progress)


@dataclass(frozen=True)
class _Terminal(_Silent):
    """One line that is written again and again."""

    stream: TextIO

    def __call__(self, progress: Progress) -> None:
        self._write(str(progress)[: shutil.get_terminal_size().columns - 1])

    def close(self) -> None:
        self._write("")

    def _write(self, text: str) -> None:
        self.stream.write(f"\r\x1b[K{text}")
        self.stream.flush()


class _Notebook(_Silent):
    """A progress bar in the output of the cell; it is removed at the end."""

    def __init__(self) -> None:
        # IPython is running this, so it is installed. Its functions have no type hints.
        ipython: Any = importlib.import_module("IPython.display")
        self._display = ipython.display({"text/plain": ""}, raw=True, display_id=True)

    def __call__(self, progress: Progress) -> None:
        bar = f'<progress value="{progress.done}" max="{max(progress.planned, 1)}"></progress>'
        shown = {"text/html": f"{bar} {html.escape(str(progress))}", "text/plain": str(progress)}
        self._display.update(shown, raw=True)

    def close(self) -> None:
        self._display.update({"text/html": "", "text/plain": ""}, raw=True)


def reporter(progress: bool | Callable[[Progress], object] | None) -> _Silent:
    """What shows the progress: a function, a notebook, a terminal, or nothing.

    Args:
        progress: A function; True or False; or None for a notebook and a terminal only.
    """
    if callable(progress):
        return _Function(progress)
    if progress is False:
        return _Silent()
    if _is_notebook():
        return _Notebook()
    if progress or sys.stderr.isatty():
        return _Terminal(sys.stderr)
    return _Silent()


def _is_notebook() -> bool:
    """Whether this is the kernel of a notebook: an IPython without a terminal."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return shell is not None and hasattr(shell, "kernel")
