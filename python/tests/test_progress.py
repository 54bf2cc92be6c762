"""How far a run is."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from longhaul.progress import Progress, RunFolder, reporter

LIVE: dict[str, Any] = {
    "schema": "longhaul.live/1",
    "stage": "measuring",
    "elapsed_s": 10.0,
    "done": 2,
    "planned": 6,
    "cells": [{"workload": "w", "network": "n", "contender": "c", "status": "running"}],
}


def write(runs: Path, name: str, document: object) -> None:
    (runs / name).mkdir(parents=True, exist_ok=True)
    (runs / name / "live.json").write_text(document if isinstance(document, str) else json.dumps(document))


def test_progress_is_that_of_the_new_run(tmp_path: Path) -> None:
    write(tmp_path, "20260101-000000-e", LIVE)
    folder = RunFolder(tmp_path, "e")
    assert folder.progress() is None
    write(tmp_path, "20260101-000001-the", LIVE)
    assert folder.progress() is None
    write(tmp_path, "20260101-000001-e-2", LIVE)
    progress = folder.progress()
    assert progress == Progress("measuring", 10.0, 2, 6, "w/n/c")
    assert progress.left_s == 20
    assert str(progress) == "2 of 6 samples, 0:10 elapsed, about 0:20 left  w/n/c"
    # Unchanged.
    assert folder.progress() is None


@pytest.mark.parametrize(
    "document", ["", "{", "[]", {}, {**LIVE, "schema": "longhaul.live/2"}, {**LIVE, "cells": 1}, {**LIVE, "cells": [1]}]
)
def test_live_file_that_is_not_understood_shows_nothing(document: object, tmp_path: Path) -> None:
    folder = RunFolder(tmp_path, "e")
    write(tmp_path, "20260101-000000-e", document)
    assert folder.progress() is None


def test_runs_folder_that_does_not_exist_shows_nothing(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path / "nowhere", "e")
    assert folder.progress() is None
    assert folder.of(LIVE) is None


def test_terminal_line_is_cleared_at_the_end(capsys: pytest.CaptureFixture[str]) -> None:
    show = reporter(True)
    show(Progress("calibrating", 0.5, 0, 6, ""))
    show.close()
    assert capsys.readouterr().err == "\r\x1b[Kcalibrating the emulator\r\x1b[K"
    show = reporter(None)
    show(Progress("measuring", 0.5, 0, 6, ""))
    show.close()
    assert capsys.readouterr().err == ""
