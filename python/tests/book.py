"""The page of the book that describes all tables. `python tests/book.py` renews it."""

from __future__ import annotations

from pathlib import Path

from longhaul.schemas import SCHEMAS

PAGE = Path(__file__).parents[2] / "docs/src/python-tables.md"

_HEAD = """# Tables of the Python package

Every column of every table of [the Python package](python.md), with its type and unit. `scripts/python.sh book` writes
this page from the package.

The version of a table grows if a column is renamed or removed, or if its type, unit or meaning changes. New columns do
not change it. Types are those of Arrow. A value of a column *or null* may be missing.
"""


def page() -> str:
    """The text of the page."""
    parts = [_HEAD]
    for schema in SCHEMAS:
        parts.append(f"\n## `{schema.name}`\n\n{schema.meaning} Schema `{schema.id}`.\n\n")
        parts.append("| column | type | unit | is |\n|---|---|---|---|\n")
        for field in schema.fields:
            kind = f"{field.type} or null" if field.nullable else field.type
            meaning = field.meaning[0].lower() + field.meaning[1:] if field.meaning[1:2].islower() else field.meaning
            unit = f" {field.unit}" if field.unit else ""
            parts.append(f"| `{field.name}` | {kind} |{unit} | {meaning} |\n")
    return "".join(parts)


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
