"""Longhaul: HTTP and WebDAV over long links, measured and explained.

>>> import longhaul
>>> explanation = longhaul.explain("slow.pcap")  # doctest: +SKIP
>>> explanation.transfers[0].cause  # doctest: +SKIP
'delayed_ack'

The program ``haul`` does the work; this package runs it and gives its results as typed rows and as tables for Arrow,
Polars and pandas. The book's chapter "Python" describes every table, column and unit.
"""

from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as _version

from .errors import (
    DocumentError,
    HaulError,
    HaulNotFoundError,
    LonghaulError,
    LonghaulWarning,
    MissingExtraError,
    UsageError,
)
from .experiment import race, run
from .explanation import Explanation, explain
from .loading import load, load_explanation
from .progress import Progress
from .result import Result
from .run_result import Run
from .table import Table

__all__ = [
    "DocumentError",
    "Explanation",
    "HaulError",
    "HaulNotFoundError",
    "LonghaulError",
    "LonghaulWarning",
    "MissingExtraError",
    "Progress",
    "Result",
    "Run",
    "Table",
    "UsageError",
    "explain",
    "load",
    "load_explanation",
    "race",
    "run",
]

try:
    __version__ = _version("longhaul")
except PackageNotFoundError:
    # Imported from the source tree, where only Cargo.toml has the version.
    __version__ = "source"
