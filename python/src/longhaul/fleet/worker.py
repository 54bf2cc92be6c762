"""A worker process of this machine. See :mod:`longhaul.fleet.local`."""

from __future__ import annotations

import os
import pickle
import signal
import sys

from .work import Work

__all__ = ["serve"]


def serve() -> None:
    """Tasks in, results out, until the program closes the pipe."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    parent = os.getppid()
    stdin, stdout = sys.stdin.buffer, sys.stdout.buffer

    def check() -> None:
        if os.getppid() != parent:
            raise SystemExit("the program that started this worker has ended")

    try:
        work: Work = pickle.load(stdin)
        while True:
            task = pickle.load(stdin)
            answer: object
            try:
                answer = work.run(task, check)
            except Exception as error:
                answer = error
            pickle.dump(answer, stdout)
            stdout.flush()
    except (EOFError, BrokenPipeError, KeyboardInterrupt):
        # The pipe's other end may be closed, and Python flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
