"""One ``haul`` that explains many captures, one after another."""

from __future__ import annotations

import os
import select
import subprocess
import tempfile
import time
from types import TracebackType
from typing import Any

from ..binary import Output, start_haul

__all__ = ["Explainer", "TimeLimitError"]


class TimeLimitError(Exception):
    """A capture took longer than allowed."""


class Explainer:
    """A ``haul explain --each``. It is started when it is first needed, and again after it has died.

    Its start would cost more than the explanation of a small capture.
    """

    def __init__(self, options: tuple[str, ...], timeout: float | None) -> None:
        self._options = options
        self._timeout = timeout
        self._process: subprocess.Popen[bytes] | None = None
        self._stderr: Any = None

    def __enter__(self) -> Explainer:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._end()

    def explain(self, path: str) -> dict[str, Any]:
        """The document of this capture.

        Raises:
            TimeLimitError: It took too long.
            HaulError: haul ended instead of answering.
        """
        try:
            line = self._ask(os.fsencode(path) + b"\0")
        except BaseException:
            self._end()
            raise
        document: dict[str, Any] = Output(line, (), 0).document()
        return document

    def _ask(self, question: bytes) -> bytes:
        if self._process is None:
            self._stderr = tempfile.TemporaryFile()  # noqa: SIM115 - closed by `_end`
            arguments = ["explain", "--each", *self._options]
            self._process = start_haul(arguments, stdin=subprocess.PIPE, stderr=self._stderr)
        process = self._process
        assert process.stdin is not None
        try:
            process.stdin.write(question)
            process.stdin.flush()
        except BrokenPipeError:
            pass  # It has ended, and has said why.
        line = self._line(process)
        if line.endswith(b"\n"):
            return line
        status = process.wait()
        self._stderr.seek(0)
        raise Output.of(b"", self._stderr.read(), status).error()

    def _line(self, process: subprocess.Popen[bytes]) -> bytes:
        """The next line of its output, incomplete if it ends."""
        assert process.stdout is not None
        output = process.stdout.fileno()
        poll = select.poll()
        poll.register(output, select.POLLIN)
        ends = None if self._timeout is None else time.monotonic() + self._timeout
        line = bytearray()
        while not line.endswith(b"\n"):
            if not poll.poll(None if ends is None else max(0.0, ends - time.monotonic()) * 1e3):
                raise TimeLimitError
            some = os.read(output, 1 << 20)
            if not some:
                break
            line += some
        return bytes(line)

    def _end(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        # Nothing outlives an explanation, so it needs no time to clean up.
        process.kill()
        process.communicate()
        self._stderr.close()
