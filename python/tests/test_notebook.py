"""The notebook of the book, executed with one sample per cell."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from conftest import LIMIT, ROOT

NOTEBOOKS = sorted((ROOT / "docs/src/notebooks").glob("*.ipynb"))


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebook_runs_to_its_end(path: Path, links: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nbformat = pytest.importorskip("nbformat", reason="nbclient is not installed")
    nbclient = pytest.importorskip("nbclient", reason="nbclient is not installed")
    for package in ("ipykernel", "altair", "polars"):
        pytest.importorskip(package, reason=f"{package} is not installed")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(sys.path))
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    (parameters,) = (cell for cell in notebook.cells if "parameters" in cell.metadata.get("tags", []))
    parameters.source = f"samples = 1\nruns = {str(tmp_path / 'runs')!r}"
    nbclient.NotebookClient(notebook, timeout=LIMIT, kernel_name="python3").execute(cwd=str(tmp_path))
    pictures = [
        output
        for cell in notebook.cells
        for output in cell.get("outputs", [])
        if "image/svg+xml" in output.get("data", {})
    ]
    assert len(pictures) >= 3
    assert len(list((tmp_path / "runs").glob("*/run.json"))) == 2
