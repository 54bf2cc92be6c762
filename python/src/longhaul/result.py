"""What all results have in common: a JSON document, and tables made from it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from .table import Table

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow

__all__ = ["Result"]


class Result:
    """A JSON document of haul, and its tables."""

    #: The table that conversions take unless another one is named.
    MAIN_TABLE: ClassVar[str]

    def __init__(self, document: Mapping[str, Any], tables: Mapping[str, Table[Any]]) -> None:
        #: The whole document, as haul wrote it.
        self.document: Mapping[str, Any] = document
        #: All tables by name.
        self.tables: Mapping[str, Table[Any]] = tables

    def table(self, name: str | None = None) -> Table[Any]:
        """The table of this name; without a name, the main one."""
        name = self.MAIN_TABLE if name is None else name
        if name not in self.tables:
            raise ValueError(f"unknown table {name!r}; available: {', '.join(self.tables)}")
        return self.tables[name]

    def to_arrow(self, table: str | None = None) -> pyarrow.Table:
        """A table as an Arrow table. Needs the extra ``arrow``."""
        return self.table(table).to_arrow()

    def to_polars(self, table: str | None = None) -> polars.DataFrame:
        """A table as a Polars data frame. Needs the extra ``polars``."""
        return self.table(table).to_polars()

    def to_pandas(self, table: str | None = None) -> pandas.DataFrame:
        """A table as a pandas data frame. Needs the extra ``pandas``."""
        return self.table(table).to_pandas()

    def save(self, path: str | os.PathLike[str], table: str | None = None) -> Path:
        """Writes a table to a file: ``.parquet``, ``.arrow``, ``.csv`` or ``.jsonl``."""
        return self.table(table).save(path)
