"""The work on one batch, in a worker process on any machine."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any

from ..capture_tables import capture_tables
from ..document import Node, check_schema
from ..errors import HaulError, UsageError
from ..explanation import EXPLAIN_SCHEMA
from ..export import need
from .explainer import Explainer, TimeLimitError
from .plan import Capture, Task
from .store import Store, is_url
from .tables import CaptureFile

__all__ = ["Result", "Work", "failed_row"]


@dataclass(frozen=True)
class Result:
    """What became of a batch."""

    captures: int
    failed: int


@dataclass(frozen=True)
class Work:
    """What every worker needs to know."""

    out: str
    token: str
    #: Options of ``haul explain``.
    options: tuple[str, ...]
    #: The time limit of one capture, in seconds.
    timeout: float | None

    def run(self, task: Task, check: Callable[[], None] = lambda: None) -> Result:
        """Explains a batch and commits it. ``check`` is called before each capture."""
        files: list[CaptureFile] = []
        tables: dict[str, list[tuple[str, Any]]] = {}
        with Explainer(self.options, self.timeout) as explainer:
            for capture in task.captures:
                check()
                files.append(self._explain(explainer, capture, tables))
        check()
        Store(self.out).commit(task.name, self.token, files, tables)
        return Result(len(files), sum(file.error is not None for file in files))

    def give_up(self, task: Task, error: str) -> Result:
        """Commits a batch whose captures failed for this reason."""
        Store(self.out).commit(task.name, self.token, [failed_row(one, error) for one in task.captures], {})
        return Result(len(task.captures), len(task.captures))

    def _explain(self, explainer: Explainer, capture: Capture, tables: dict[str, list[tuple[str, Any]]]) -> CaptureFile:
        began = time.monotonic()

        def seconds() -> float:
            return time.monotonic() - began

        path = capture.path
        try:
            with _local_copy(capture.path) as path:
                document = explainer.explain(path)
            document["captures"] = [capture.path]
            for connection in document.get("connections") or ():
                connection["capture"] = capture.path
            node = check_schema(document, EXPLAIN_SCHEMA, capture.path)
            error, message = _unread(node)
            made = capture_tables(node)
        except TimeLimitError:
            return failed_row(capture, f"the time limit of {self.timeout:g} s passed", seconds())
        except UsageError:
            # An option is wrong, and so it is for all captures.
            raise
        except HaulError as error:
            return failed_row(capture, _named(error.sentence, path, capture.path), seconds())
        # fsspec's file systems raise exceptions of their own for what is one file's matter.
        except (OSError, ValueError) as error:
            return failed_row(capture, f"{capture.path}: {error}", seconds())
        if error is not None:
            return failed_row(capture, _named(error, path, capture.path), seconds())
        for name, table in made.items():
            tables.setdefault(name, []).extend((capture.path, row) for row in table)
        return CaptureFile(
            capture=capture.path,
            version=capture.version,
            size=capture.size,
            transfers=len(made["transfers"]),
            seconds=seconds(),
            error=None,
            message=message and _named(message, path, capture.path),
        )


def failed_row(capture: Capture, error: str, seconds: float = 0.0) -> CaptureFile:
    """The row of a capture that could not be explained."""
    return CaptureFile(capture.path, capture.version, capture.size, 0, seconds, error, None)


def _unread(document: Node) -> tuple[str | None, str | None]:
    """Why nothing could be read, and why not everything."""
    for capture in document.nodes("coverage"):
        error = capture.optional_text("error")
        return (error, None) if capture.integer("packets") == 0 else (None, error)
    return None, None


def _named(text: str, path: str, name: str) -> str:
    return text.replace(path, name) if path != name else text


@contextlib.contextmanager
def _local_copy(path: str) -> Iterator[str]:
    """The capture itself, or a temporary copy of a remote one: haul reads files only."""
    if not is_url(path):
        yield path
        return
    opened = need("fsspec", "remote").open(path, "rb")
    # haul knows compressed captures by their content, people by their suffix.
    descriptor, name = tempfile.mkstemp(prefix="longhaul-", suffix="".join(PurePath(path).suffixes)[-20:])
    try:
        with os.fdopen(descriptor, "wb") as copy, opened as source:
            shutil.copyfileobj(source, copy, 1 << 20)
        yield name
    finally:
        os.unlink(name)
