"""Finding and running programs, with scripts in the place of haul."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import LIMIT

import longhaul
from longhaul import binary


@pytest.fixture
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A program that is taken for haul; the test writes its text."""
    script = tmp_path / "a script"
    script.touch(mode=0o755)
    monkeypatch.setenv("LONGHAUL_HAUL", str(script))
    return script


def fails_with(script: Path, text: str) -> longhaul.LonghaulError:
    script.write_text(f"#!/bin/sh\n{text}\n")
    with pytest.raises(longhaul.LonghaulError) as raised:
        longhaul.explain("x")
    return raised.value


def test_messages_become_the_exceptions_text(script: Path) -> None:
    error = fails_with(script, "echo noise >&2; echo 'haul: a: b' >&2; exit 1")
    assert (type(error), str(error)) == (longhaul.HaulError, "a: b")
    error = fails_with(script, "printf 'error: no such thing\\n\\n  tip: none\\n\\nUsage: x\\n' >&2; exit 2")
    assert (type(error), str(error)) == (longhaul.UsageError, "no such thing")


def test_silent_failure_names_the_status(script: Path) -> None:
    assert str(fails_with(script, "exit 3")) == "haul ended with exit status 3 and no message"
    assert str(fails_with(script, "kill -KILL $$")) == "haul was killed by SIGKILL"


def test_output_that_is_no_document_is_refused(script: Path) -> None:
    assert "no valid JSON" in str(fails_with(script, "echo '{'"))
    assert "not an object" in str(fails_with(script, "echo '[]'"))
    assert "longhaul.explain/2" in str(fails_with(script, 'echo \'{"schema": "longhaul.explain/2"}\''))
    assert "no field `schema`" in str(fails_with(script, "echo '{}'"))


def test_program_that_cannot_run_is_named(script: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script.write_bytes(b"\x7fELF but not really")
    with pytest.raises(longhaul.HaulNotFoundError, match=r"cannot run .*a script: Exec format error"):
        longhaul.explain("x")
    monkeypatch.setenv("LONGHAUL_HAUL", "/nowhere/haul")
    with pytest.raises(longhaul.HaulNotFoundError, match="LONGHAUL_HAUL is '/nowhere/haul', which is not a program"):
        longhaul.explain("x")


def test_program_is_searched_beside_python_and_on_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LONGHAUL_HAUL", raising=False)
    monkeypatch.setattr(binary, "_script_folders", lambda: iter([str(tmp_path / "scripts")]))
    monkeypatch.setenv("PATH", str(tmp_path / "path"))
    with pytest.raises(longhaul.HaulNotFoundError, match="neither installed beside Python nor on PATH"):
        binary.find_haul()
    for folder in ("path", "scripts"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "haul").touch(mode=0o755)
        assert binary.find_haul() == tmp_path / folder / "haul"


def test_hanging_program_is_killed_by_a_second_interrupt(script: Path) -> None:
    script.write_text("#!/bin/sh\ntrap '' INT\necho $$ > \"$0.pid\"\nwhile :; do sleep 0.1; done\n")
    code = """
import os, signal, sys, threading, time, longhaul
def interrupt():
    while not os.path.exists(sys.argv[1]): time.sleep(0.05)
    for _ in range(2):
        time.sleep(1)
        os.kill(os.getpid(), signal.SIGINT)
threading.Thread(target=interrupt, daemon=True).start()
try:
    longhaul.explain("x")
except KeyboardInterrupt:
    print("interrupted")
"""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", code, f"{script}.pid"]
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=LIMIT, check=False)
    assert (ended.stdout, ended.stderr) == ("interrupted\n", "")
    assert not Path(f"/proc/{Path(f'{script}.pid').read_text().strip()}").exists()


def test_module_is_the_program(haul: Path) -> None:
    command = [sys.executable, "-m", "longhaul", "--version"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    printed = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=LIMIT, check=True).stdout
    assert printed == f"haul {binary.version()}\n"
