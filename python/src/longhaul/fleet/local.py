"""Worker processes on this machine.

Each is a Python that runs :mod:`longhaul.fleet.worker`: it reads tasks from its standard input and writes results to
its standard output. A thread per worker waits for it, so the death of a worker concerns one batch.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ..binary import STOP_LIMIT
from .plan import Task
from .work import Result, Work

__all__ = ["run"]

# An interrupt while it imports ends it without a traceback.
_WORKER = (
    "import signal; signal.signal(signal.SIGINT, signal.SIG_DFL); from longhaul.fleet.worker import serve; serve()"
)


def run(work: Work, tasks: Iterator[Task], workers: int, retries: int) -> Iterator[Result]:
    """Gives tasks to this number of workers, and yields their results as they come."""
    results: queue.SimpleQueue[Result | BaseException | None] = queue.SimpleQueue()
    shared = _Shared(tasks)
    pool = [_Worker(work, shared, results, retries) for _ in range(workers)]
    try:
        for worker in pool:
            worker.start()
        left = workers
        while left:
            result = results.get()
            if isinstance(result, BaseException):
                raise result
            if result is None:
                left -= 1
            else:
                yield result
    finally:
        # At the end, workers have ended already. Otherwise they end their haul first.
        shared.stop()
        for worker in pool:
            worker.interrupt()
        for worker in pool:
            worker.join()


class _Shared:
    """The tasks that no worker has taken."""

    def __init__(self, tasks: Iterator[Task]) -> None:
        self._tasks = tasks
        self._lock = threading.Lock()
        self.stopped = False

    def next(self) -> Task | None:
        with self._lock:
            return None if self.stopped else next(self._tasks, None)

    def stop(self) -> None:
        with self._lock:
            self.stopped = True


class _Worker(threading.Thread):
    def __init__(self, work: Work, shared: _Shared, results: queue.SimpleQueue[Any], retries: int) -> None:
        super().__init__(name="longhaul fleet", daemon=True)
        self._work = work
        self._shared = shared
        self._results = results
        self._retries = retries
        self._process: Any = None

    def run(self) -> None:
        try:
            while (task := self._shared.next()) is not None:
                self._results.put(self._result(task))
            self._results.put(None)
        except BaseException as error:
            self._results.put(error)
        finally:
            self._close()

    def interrupt(self) -> None:
        process = self._process
        if process is not None:
            with contextlib.suppress(ProcessLookupError):
                process.send_signal(signal.SIGINT)

    def _result(self, task: Task) -> Result:
        for _ in range(self._retries + 1):
            try:
                return self._ask(task)
            except (EOFError, BrokenPipeError, pickle.UnpicklingError):
                self._close()
                if self._shared.stopped:
                    raise
        return self._work.give_up(task, f"the worker died {self._retries + 1} times while it explained this batch")

    def _ask(self, task: Task) -> Result:
        if self._process is None:
            self._process = _start()
            pickle.dump(self._work, self._process.stdin)
        pickle.dump(task, self._process.stdin)
        self._process.stdin.flush()
        answer = pickle.load(self._process.stdout)
        if isinstance(answer, BaseException):
            raise answer
        assert isinstance(answer, Result)
        return answer

    def _close(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        with process:
            with contextlib.suppress(BrokenPipeError):
                process.stdin.close()
            try:
                process.wait(STOP_LIMIT)
            except subprocess.TimeoutExpired:
                process.kill()


def _start() -> Any:
    # The worker must find this package where this program found it.
    paths = [str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH", "")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))}
    return subprocess.Popen(
        [sys.executable, "-c", _WORKER],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=environment,
    )
