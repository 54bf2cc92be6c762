"""A run of an experiment: what was measured, and what it was spent on."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from . import html, plots
from .document import check_schema
from .explanation import Explanation, explain
from .result import Result
from .run_tables import Cell, CellCause, Claim, Comparison, Method, Sample, run_tables
from .table import Table

if TYPE_CHECKING:
    import altair

__all__ = ["RUN_SCHEMA", "Run"]

#: The schema of the documents that this package reads.
RUN_SCHEMA = "longhaul.run/1"


class Run(Result):
    """What an experiment measured."""

    MAIN_TABLE = "cells"

    def __init__(self, document: Mapping[str, Any], *, file: str | os.PathLike[str] = "the run") -> None:
        """A run from its document.

        Args:
            document: A document of schema ``longhaul.run/1``.
            file: The document's file, if it is one. Samples and captures are beside it.
        """
        path = Path(file)
        node = check_schema(dict(document), RUN_SCHEMA, str(path))
        #: The run's folder; None if the document is not in one.
        self.folder: Path | None = path.parent if path.name == "run.json" else None
        name = os.path.abspath(path.parent) if self.folder else path.stem
        #: The name of the run's folder, such as ``20261125-024110-webdav-race``.
        self.id: str = os.fsencode(os.path.basename(name)).decode(errors="replace")
        super().__init__(document, run_tables(node, self.id, self.folder and self.folder / "samples.csv"))
        #: The experiment's name, title and question.
        self.experiment: str = node.text("experiment")
        self.title: str = node.optional_text("title") or self.experiment
        self.question: str = node.optional_text("question") or ""
        #: The start: RFC 3339, UTC.
        self.started: str = node.text("started")

    @property
    def cells(self) -> Table[Cell]:
        """One row for each workload, network and contender."""
        return self.tables["cells"]

    @property
    def samples(self) -> Table[Sample]:
        """One row for each sample."""
        return self.tables["samples"]

    @property
    def comparisons(self) -> Table[Comparison]:
        """One row for each pair of contenders with the same workload and network."""
        return self.tables["comparisons"]

    @property
    def claims(self) -> Table[Claim]:
        """One row for each claim of the experiment's source."""
        return self.tables["claims"]

    @property
    def causes(self) -> Table[CellCause]:
        """One row for each cell and each cause of its typical sample's time."""
        return self.tables["cell_causes"]

    @property
    def methods(self) -> Table[Method]:
        """One row for each cell and each method of its HTTP requests."""
        return self.tables["methods"]

    @property
    def report(self) -> Path | None:
        """The HTML report, if there is one."""
        report = self.folder and self.folder / "report.html"
        return report if report and report.is_file() else None

    def capture(self, cell: Cell | Sample) -> Path | None:
        """The packets of a cell's typical sample, from the client's end, if they were kept."""
        name = f"{cell.workload}-{cell.network}-{cell.contender}".replace(" ", "-").replace("/", "-")
        capture = self.folder and self.folder / "captures" / f"{name}.pcapng"
        return capture if capture and capture.is_file() else None

    def explain(self, cell: Cell | Sample) -> Explanation:
        """Explains the packets of a cell's typical sample, transfer by transfer.

        Raises:
            FileNotFoundError: The run has no capture of this cell.
        """
        capture = self.capture(cell)
        if capture is None:
            raise FileNotFoundError(f"run {self.id} has no capture of {cell.workload}/{cell.network}/{cell.contender}")
        return explain(capture)

    def plot_intervals(self) -> altair.FacetChart:
        """A chart of each cell's median, its interval and its samples. Needs the extra ``plot``."""
        return plots.intervals(self)

    def plot_causes(self) -> altair.FacetChart:
        """A chart of what the typical sample of each cell was spent on. Needs the extra ``plot``."""
        return plots.cell_causes(self)

    def _repr_html_(self) -> str:
        return html.of_run(self)

    def __repr__(self) -> str:
        return f"<Run {self.id}: {len(self.cells)} cells, {len(self.samples)} samples, {len(self.claims)} claims>"
