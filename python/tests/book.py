"""The page of the book that describes all tables. `python tests/book.py` renews it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from longhaul.schemas import SCHEMAS
from longhaul.table import Field

PAGE = Path(__file__).parents[2] / "docs/src/python-tables.md"

_HEAD = """# Tables of the Python package

Every column of every table of [the Python package](python.md). `scripts/python.sh book` writes this page.

A table's version grows if a column is renamed or removed, or changes its type, unit or meaning; not for a new column.
Types are those of Arrow. A value of a type with `?` may be null.

## Shared columns

"""

#: A column of at least this number of tables is described once.
_SHARED = 3


def page() -> str:
    """The text of the page."""
    uses = Counter(field for schema in SCHEMAS for field in schema.fields)
    shared = [field for field, count in uses.items() if count >= _SHARED]
    parts = [_HEAD, _columns(shared)]
    for schema in SCHEMAS:
        parts.append(f"\n## `{schema.name}`\n\n{schema.meaning} Schema `{schema.id}`.\n\n")
        names = ", ".join(f"`{field.name}`" for field in schema.fields if field in shared)
        parts.append(f"Shared: {names}.\n\n" if names else "")
        own = [field for field in schema.fields if field not in shared]
        parts.append(_columns(own))
    return "".join(parts)


def _columns(fields: Iterable[Field]) -> str:
    rows = ["| column | type | is |\n|---|---|---|\n"]
    for field in fields:
        kind = f"{field.type}{'?' if field.nullable else ''}{f', {field.unit}' if field.unit else ''}"
        meaning = field.meaning[0].lower() + field.meaning[1:] if field.meaning[1:2].islower() else field.meaning
        rows.append(f"| `{field.name}` | {kind} | {meaning} |\n")
    return "".join(rows)


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
