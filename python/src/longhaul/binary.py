"""Finding and running the program ``haul``.

A wheel installs ``haul`` beside the interpreter. Every call runs it once, in Python's process group, so that Jupyter
ends it too when it restarts a kernel. An interrupted run needs its time to remove its network namespaces and processes.
So an interrupted call asks ``haul`` to end, and kills it only when its own time limits have passed. If Python
is killed, the kernel tells ``haul``, which then ends by itself.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import sysconfig
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from .errors import DocumentError, HaulError, HaulNotFoundError, UsageError

__all__ = ["ENVIRONMENT_VARIABLE", "Argument", "Output", "find_haul", "run_haul", "start_haul", "version"]

#: The environment variable that names the program to run instead of the installed one.
ENVIRONMENT_VARIABLE = "LONGHAUL_HAUL"

#: How long an interrupted haul may take to end, in seconds. Its own limit is 18 s, its supervisor's 20 s.
STOP_LIMIT = 25.0

#: How often a waiting call looks at the progress, in seconds.
POLL_INTERVAL = 0.25

Argument = str | bytes | os.PathLike[str] | os.PathLike[bytes]


@dataclass(frozen=True)
class Output:
    """What a finished ``haul`` printed."""

    stdout: bytes
    messages: tuple[str, ...]
    status: int

    @classmethod
    def of(cls, stdout: bytes, stderr: bytes, status: int) -> Output:
        """With the messages on standard error."""
        return cls(stdout, tuple(_messages(stderr.decode(errors="replace"))), status)

    def document(self) -> dict[str, object]:
        """The JSON document on standard output."""
        try:
            document = json.loads(self.stdout, parse_constant=lambda _: None)
        except ValueError as error:
            raise DocumentError(f"haul printed no valid JSON: {error}") from error
        if not isinstance(document, dict):
            raise DocumentError("haul printed JSON, but not an object")
        return document

    def error(self, result: object = None, sentence: str | None = None) -> HaulError:
        """The exception for a failed ``haul``, with this sentence or its last message."""
        kind = UsageError if self.status == 2 else HaulError
        return kind(sentence or self._last_message(), status=self.status, result=result)

    def _last_message(self) -> str:
        if self.messages:
            return self.messages[-1]
        if self.status < 0:
            return f"haul was killed by {_signal_name(-self.status)}"
        return f"haul ended with exit status {self.status} and no message"


def find_haul() -> Path:
    """The path of the program ``haul``.

    The environment variable ``LONGHAUL_HAUL`` decides, then the interpreter's own folder of programs, then ``PATH``.

    Raises:
        HaulNotFoundError: There is none.
    """
    named = os.environ.get(ENVIRONMENT_VARIABLE)
    if named:
        found = shutil.which(named)
        if found is None:
            raise HaulNotFoundError(f"{ENVIRONMENT_VARIABLE} is {named!r}, which is not a program; correct or unset it")
        return Path(found)
    for folder in _script_folders():
        found = shutil.which("haul", path=folder)
        if found is not None:
            return Path(found)
    found = shutil.which("haul")
    if found is None:
        raise HaulNotFoundError(
            f"haul is neither installed beside Python nor on PATH; reinstall longhaul, or set {ENVIRONMENT_VARIABLE}"
        )
    return Path(found)


def _script_folders() -> Iterator[str]:
    """Where installers put a wheel's programs: the environment's, the user's, and those of ``pip install --target``."""
    yield sysconfig.get_path("scripts")
    yield sysconfig.get_path("scripts", scheme=sysconfig.get_preferred_scheme("user"))
    yield str(Path(__file__).parent.parent / "bin")


def version() -> str:
    """The version of the program, such as ``0.1.0``."""
    output = run_haul(["--version"])
    if output.status:
        raise output.error()
    return output.stdout.decode(errors="replace").strip().removeprefix("haul ")


def run_haul(arguments: Sequence[Argument], on_wait: Callable[[], None] | None = None) -> Output:
    """Runs ``haul`` to its end. ``on_wait`` is called a few times a second while it runs.

    If the call is interrupted, by Ctrl-C or by any other exception, ``haul`` and everything it started end first.
    """
    process = start_haul(arguments)
    with process:
        try:
            stdout, stderr = _communicate(process, on_wait)
        except BaseException as error:
            _note(error, _stop(process))
            raise
    return Output.of(stdout, stderr, process.returncode)


def start_haul(
    arguments: Sequence[Argument], *, stdin: int = subprocess.DEVNULL, stderr: int | IO[bytes] = subprocess.PIPE
) -> subprocess.Popen[bytes]:
    """Starts ``haul``. It ends when this process is killed."""
    haul = find_haul()
    try:
        return subprocess.Popen(
            [haul, *arguments],
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=stderr,
            env={**os.environ, "HAUL_PARENT": str(os.getpid())},
        )
    except OSError as error:
        raise HaulNotFoundError(f"cannot run {haul}: {error.strerror or error}") from error


def _communicate(process: subprocess.Popen[bytes], on_wait: Callable[[], None] | None) -> tuple[bytes, bytes]:
    if on_wait is None:
        return process.communicate()
    while True:
        try:
            return process.communicate(timeout=POLL_INTERVAL)
        except subprocess.TimeoutExpired:
            on_wait()


def _stop(process: subprocess.Popen[bytes]) -> str | None:
    """Ends an interrupted ``haul``, and returns its last message. A second interrupt kills it at once."""
    try:
        process.send_signal(signal.SIGINT)
        _, stderr = process.communicate(timeout=STOP_LIMIT)
    except (subprocess.TimeoutExpired, KeyboardInterrupt):
        # The supervisor's death ends everything in its sandbox.
        process.kill()
        process.wait()
        return None
    return next(reversed([*_messages(stderr.decode(errors="replace"))]), None)


def _note(error: BaseException, message: str | None) -> None:
    if message is not None and sys.version_info >= (3, 11):
        error.add_note(f"haul: {message}")


def _messages(text: str) -> Iterator[str]:
    """Haul's messages on standard error: ``haul: …``, or the command line parser's ``error: …``."""
    message: list[str] = []
    for line in text.splitlines():
        starts = line.startswith(("haul: ", "error: "))
        if message and (starts or not line.strip()):
            yield "\n".join(message)
            message = []
        if starts:
            message = [line.partition(": ")[2]]
        elif message:
            message.append(line.rstrip())
    if message:
        yield "\n".join(message)


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
