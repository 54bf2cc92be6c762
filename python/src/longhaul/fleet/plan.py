"""What there is to explain: captures by path, glob or URL, in batches."""

from __future__ import annotations

import glob
import hashlib
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from ..export import need
from .store import is_url

__all__ = ["Capture", "Task", "batches", "find_captures"]

CapturePath = str | os.PathLike[str]


@dataclass(frozen=True)
class Capture:
    """A file, and by what a change of it is detected."""

    path: str
    version: str
    size: int | None


@dataclass(frozen=True)
class Task:
    """A batch of captures for one worker."""

    name: str
    captures: tuple[Capture, ...]


def find_captures(paths: CapturePath | Iterable[CapturePath]) -> list[Capture]:
    """All captures of these paths and globs, each once, in order.

    Raises:
        FileNotFoundError: A path or a glob names no file.
    """
    if isinstance(paths, str | os.PathLike):
        paths = [paths]
    found: dict[str, Capture] = {}
    for one in paths:
        path = os.fspath(one)
        some = False
        for capture in _remote(path) if is_url(path) else _local(path):
            found[capture.path] = capture
            some = True
        if not some:
            raise FileNotFoundError(f"{path}: no such file, and no file matches it; check the path")
    return [found[path] for path in sorted(found)]


def _local(path: str) -> Iterator[Capture]:
    # A file whose name looks like a glob is that file. Workers have other working directories, so paths are absolute.
    names = [path] if os.path.lexists(path) else glob.iglob(path, recursive=True)
    for name in names:
        if not os.path.isdir(name):
            try:
                status = os.stat(name)
                yield Capture(os.path.abspath(name), str(status.st_mtime_ns), status.st_size)
            except OSError:
                # haul will say why.
                yield Capture(os.path.abspath(name), "", None)


def _remote(url: str) -> Iterator[Capture]:
    fs, path = need("fsspec", "remote").core.url_to_fs(url)
    # One listing names all files of a glob, with their sizes and ETags.
    found: dict[str, dict[str, Any]] = fs.glob(path, detail=True) if glob.has_magic(path) else {path: fs.info(path)}
    for name, info in found.items():
        if info.get("type") != "directory":
            version = next(
                (info[key] for key in ("ETag", "etag", "mtime", "LastModified", "created") if info.get(key)), ""
            )
            yield Capture(fs.unstrip_protocol(name), str(version), info.get("size"))


def batches(captures: Iterable[Capture], most: int, most_bytes: int) -> Iterator[Task]:
    """Captures in batches of at most this number, and this size unless one alone is larger."""
    batch: list[Capture] = []
    size = 0
    for capture in captures:
        if batch and (len(batch) == most or size + (capture.size or 0) > most_bytes):
            yield _task(batch)
            batch, size = [], 0
        batch.append(capture)
        size += capture.size or 0
    if batch:
        yield _task(batch)


def _task(captures: list[Capture]) -> Task:
    digest = hashlib.sha256()
    for one in captures:
        digest.update(f"{one.path}\0{one.version}\0{one.size}\0".encode(errors="surrogateescape"))
    return Task(digest.hexdigest()[:24], tuple(captures))
