"""The pages of the book about this package."""

from __future__ import annotations

import doctest
from pathlib import Path

import book
import pytest
from conftest import ROOT

import longhaul

PAGE = ROOT / "docs/src/python.md"


def test_page_of_the_tables_is_up_to_date() -> None:
    renew = "docs/src/python-tables.md is out of date; run `scripts/python.sh book` and commit the result"
    assert book.PAGE.read_text(encoding="utf-8") == book.page(), renew


def test_sessions_in_the_chapter_are_those_of_python(haul: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    # A page marks what it leaves out by one character, doctest by three.
    text = PAGE.read_text(encoding="utf-8").replace("…", "...").replace("\n```\n", "\n\n")
    session = doctest.DocTestParser().get_doctest(text, {}, PAGE.name, str(PAGE), 0)
    assert len(session.examples) > 5
    failures: list[str] = []
    doctest.DocTestRunner(optionflags=doctest.ELLIPSIS).run(session, out=failures.append)
    assert not failures, "".join(failures)


def test_chapter_names_what_the_package_exports() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert [name for name in longhaul.__all__ if name not in text] == []
