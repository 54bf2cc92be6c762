"""The measurement of one block, on any machine: the contenders of a network and a workload, which take turns."""

from __future__ import annotations

import contextlib
import fcntl
import glob
import io
import os
import platform
import shutil
import tempfile
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..errors import HaulError, LonghaulError, UsageError
from ..experiment import run

__all__ = ["Block", "Measured", "Measurement"]


@dataclass(frozen=True)
class Block:
    """What must stay on one machine, so that rivals are compared on the same one."""

    #: A digest of everything that decides what is measured.
    name: str
    network: str
    workload: str
    samples: int

    def __str__(self) -> str:
        return f"{self.workload} over {self.network}"


@dataclass(frozen=True)
class Measured:
    """What became of an attempt to measure a block."""

    #: Ray's ID of the node, or the machine's name.
    node: str
    #: The run's folder as a ZIP file; None if it failed.
    folder: bytes | None = None
    #: How late the emulator's packets were on that machine, and how late they may be.
    late_s: float = 0.0
    limit_s: float = 0.0
    #: Why it failed.
    error: str | None = None

    @property
    def is_true(self) -> bool:
        """Whether the machine emulated the network well enough."""
        return self.late_s <= self.limit_s


#: How the temporary folders of measurements begin.
_PREFIX = "longhaul-measure-"


@dataclass(frozen=True)
class Measurement:
    """What every machine needs to know."""

    #: The name of a built-in experiment, or of a file.
    experiment: str
    #: The text of the file; None for a built-in one.
    text: str | None
    #: Arguments of :func:`longhaul.run`.
    arguments: Mapping[str, Any]
    #: The limit of the delay error; None for a share of the round-trip time.
    late_limit_s: float | None

    def measure(self, block: Block, node: str = "") -> Measured:
        """Measures a block. A failure is returned, unless it would be the same for all blocks."""
        node = node or platform.node()
        with _scratch() as folder:
            experiment = self.experiment
            if self.text is not None:
                experiment = os.path.join(folder, self.experiment)
                Path(experiment).write_text(self.text, encoding="utf-8")
            try:
                made = run(
                    experiment,
                    network=block.network,
                    workload=block.workload,
                    results=os.path.join(folder, "runs"),
                    progress=False,
                    **self.arguments,
                )
            except UsageError:
                raise
            except (HaulError, OSError) as error:
                return Measured(node, error=str(error))
            if made.folder is None:
                raise LonghaulError("haul did not keep its run")
            late_s, rtt_s = _late(made.document), made.document["networks"][0]["rtt_s"]
            limit_s = _limit(rtt_s) if self.late_limit_s is None else self.late_limit_s
            return Measured(node, _packed(made.folder), late_s, limit_s)


@contextlib.contextmanager
def _scratch() -> Iterator[str]:
    """A temporary folder, locked while it is in use. Removes what killed workers left: nobody locks it any more."""
    for left in glob.glob(os.path.join(tempfile.gettempdir(), _PREFIX + "*")):
        with _locked(left) as is_free:
            if is_free:
                shutil.rmtree(left, ignore_errors=True)
    while True:
        with tempfile.TemporaryDirectory(prefix=_PREFIX, ignore_cleanup_errors=True) as folder, _locked(folder):
            # Another worker may have taken it for a left one before it was locked.
            if os.path.isdir(folder):
                yield folder
                return


@contextlib.contextmanager
def _locked(folder: str) -> Iterator[bool]:
    """Whether the folder could be locked, which it is until the end, or until this process dies."""
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except OSError:
        yield False
        return
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        is_free = True
    except OSError:
        is_free = False
    try:
        yield is_free
    finally:
        os.close(descriptor)


def _late(document: Mapping[str, Any]) -> float:
    """The 99th percentile of the delay error on the machine, at 1000 packets a second."""
    return float((document["calibration"] or {}).get("delay_error_p99_us", 0.0)) / 1e6


def _limit(rtt_s: float) -> float:
    """A twentieth of the round-trip time, but not less than what a busy machine reaches."""
    return max(rtt_s / 20, 0.001)


def _packed(folder: Path) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in sorted(folder.rglob("*")):
            archive.write(path, path.relative_to(folder))
    return packed.getvalue()
