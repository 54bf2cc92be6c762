"""Tables: rows of one type, with a documented name, type, unit and meaning for every column.

A row type is a frozen dataclass whose fields are annotated with a :class:`Column`. That is the only place where a
column is described: types are checked by mypy, and the Arrow schema, the CSV header and the tables of the book are
derived from it.
"""

from __future__ import annotations

import types
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar, Union, get_args, get_origin, get_type_hints, overload

from . import export, html

if TYPE_CHECKING:
    import os

    import pandas
    import polars
    import pyarrow

__all__ = ["Column", "Field", "Row", "Schema", "Table"]

Row = TypeVar("Row", covariant=True)


@dataclass(frozen=True)
class Column:
    """The annotation of a row's field."""

    meaning: str
    #: A unit such as ``s``, ``ms``, ``byte``; empty for text, counts and ratios.
    unit: str = ""


@dataclass(frozen=True)
class Field:
    """A column of a table."""

    name: str
    #: The Arrow type, as Arrow names it: ``string``, ``double``, ``int64``, ``bool``, ``list<int64>``.
    type: str
    #: Whether a value may be missing.
    nullable: bool
    unit: str
    meaning: str


@dataclass(frozen=True)
class Schema(Generic[Row]):
    """The columns of a table."""

    #: The table's name, such as ``samples``.
    name: str
    #: Grows when a column is renamed or removed, or changes its type, unit or meaning. New columns do not change it.
    version: int
    row: type[Row]

    @property
    def id(self) -> str:
        """Name and version: ``longhaul.samples/1``."""
        return f"longhaul.{self.name}/{self.version}"

    @property
    def meaning(self) -> str:
        """What one row is."""
        return (self.row.__doc__ or "").strip().splitlines()[0]

    @cached_property
    def fields(self) -> tuple[Field, ...]:
        """The columns, in order."""
        hints = get_type_hints(self.row, include_extras=True)
        return tuple(_field(field.name, hints[field.name]) for field in fields(self.row))  # type: ignore[arg-type]


_ARROW_TYPES: dict[object, str] = {
    str: "string",
    float: "double",
    int: "int64",
    bool: "bool",
    tuple[int, ...]: "list<int64>",
}


def _field(name: str, hint: object) -> Field:
    of, column = get_args(hint)
    if not isinstance(column, Column):
        raise TypeError(f"the field {name} is annotated with {column!r} instead of a Column")
    nullable = get_origin(of) in (Union, types.UnionType)
    if nullable:
        (of,) = (one for one in get_args(of) if one is not type(None))
    return Field(name, _ARROW_TYPES[of], nullable, column.unit, column.meaning)


@dataclass(frozen=True)
class Table(Sequence[Row]):
    """Rows of one type. It is a sequence of them, and converts to Arrow, Polars and pandas."""

    schema: Schema[Row]
    rows: tuple[Row, ...]

    @overload
    def __getitem__(self, index: int) -> Row: ...
    @overload
    def __getitem__(self, index: slice) -> Table[Row]: ...
    def __getitem__(self, index: int | slice) -> Row | Table[Row]:
        return Table(self.schema, self.rows[index]) if isinstance(index, slice) else self.rows[index]

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[Row]:
        return iter(self.rows)

    def __repr__(self) -> str:
        return f"<{self.schema.id}: {len(self)} rows>"

    def _repr_html_(self) -> str:
        return html.of_table(self)

    def columns(self) -> dict[str, list[Any]]:
        """The values of each column, by its name."""
        return {field.name: [getattr(row, field.name) for row in self.rows] for field in self.schema.fields}

    def to_arrow(self) -> pyarrow.Table:
        """An Arrow table. Units and meanings are in its fields' metadata. Needs the extra ``arrow``."""
        return export.to_arrow(self)

    def to_polars(self) -> polars.DataFrame:
        """A Polars data frame. Needs the extra ``polars``."""
        return export.to_polars(self)

    def to_pandas(self) -> pandas.DataFrame:
        """A pandas data frame with nullable types. Needs the extra ``pandas``."""
        return export.to_pandas(self)

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Writes the table to a file, and returns its path.

        The suffix is the format: ``.parquet`` or ``.arrow``, which need the extra ``arrow``, ``.csv`` or ``.jsonl``. An
        existing file is replaced when the new one is complete.
        """
        return export.save(self, Path(path))
