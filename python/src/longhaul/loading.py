"""Loading results from files."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from .errors import DocumentError
from .explanation import Explanation
from .run_result import Run

__all__ = ["load", "load_explanation"]


def load(path: str | os.PathLike[str]) -> Run:
    """Loads a run from its folder, such as ``runs/20261125-024110-webdav-race``, or from its JSON document.

    Raises:
        FileNotFoundError: There is no such file or folder.
        DocumentError: The folder has no results, or the document is no run.
    """
    file = Path(path)
    if file.is_dir():
        file = file / "run.json"
        if not file.exists():
            raise DocumentError(_no_results(file.parent))
    return Run(_read(file), file=file)


def load_explanation(path: str | os.PathLike[str]) -> Explanation:
    """Loads an explanation from a document that ``haul explain --json`` wrote.

    Raises:
        FileNotFoundError: There is no such file.
        DocumentError: The document is no explanation.
    """
    return Explanation(_read(Path(path)), file=str(path))


def _read(file: Path) -> dict[str, Any]:
    try:
        document = json.loads(file.read_bytes(), parse_constant=lambda _: None)
    except ValueError as error:
        raise DocumentError(f"{file} is not valid JSON: {error}") from error
    if not isinstance(document, dict):
        raise DocumentError(f"{file} is not a JSON object")
    return document


def _no_results(folder: Path) -> str:
    if (folder / "samples.csv").exists():
        return f"{folder} has no results: the run is in progress or was killed; samples.csv has its samples"
    runs = sorted(file.parent for file in folder.glob("*/run.json"))
    if runs:
        return f"{folder} holds {len(runs)} runs; load one of them, such as {runs[-1]}"
    return f"{folder} has no run.json; `haul race` or longhaul.race() makes a run"
