"""The parts of a sweep: one folder per block, which this program alone writes.

A folder appears with all its files, so a program may be killed at any moment. A block has one folder, so nothing counts
twice.
"""

from __future__ import annotations

import contextlib
import fcntl
import io
import os
import shutil
import zipfile
from collections.abc import Iterator
from pathlib import Path

from ..errors import LonghaulError
from .measure import Block

__all__ = ["Parts"]


class Parts:
    """The parts in the folder of a sweep."""

    def __init__(self, out: Path) -> None:
        self._out = out
        self._folder = out / "parts"

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Keeps other programs out. The kernel releases the lock when this one ends, however it ends.

        Raises:
            LonghaulError: Another program has the folder.
        """
        self._folder.mkdir(parents=True, exist_ok=True)
        with open(self._out / "lock", "w") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                raise LonghaulError(
                    f"{self._out} is being written by another program; wait until it ends, or choose another `out`"
                ) from error
            for left in self._folder.glob(".*"):
                shutil.rmtree(left)
            yield

    def folder(self, block: Block) -> Path:
        """Where the run of a block is, or will be."""
        return self._folder / block.name

    def has(self, block: Block) -> bool:
        """Whether a block is measured."""
        return self.folder(block).is_dir()

    def commit(self, block: Block, packed: bytes) -> None:
        """Stores the run of a block."""
        temporary = self._folder / f".{block.name}"
        with zipfile.ZipFile(io.BytesIO(packed)) as archive:
            archive.extractall(temporary)
        # A folder must not appear on the disk before its files.
        os.sync()
        os.replace(temporary, self.folder(block))
