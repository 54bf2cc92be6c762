"""Tables as Arrow, Polars, pandas and files. The packages for that are optional, and imported when they are needed."""

from __future__ import annotations

import contextlib
import csv
import importlib
import json
import os
import secrets
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .errors import MissingExtraError

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow

    from .table import Table

__all__ = ["need", "save", "to_arrow", "to_pandas", "to_polars"]


#: The packages of each extra, as in pyproject.toml.
_EXTRAS = {
    "arrow": "pyarrow",
    "polars": "polars",
    "pandas": "pandas",
    "plot": "altair vl-convert-python",
    "ray": "ray pyarrow",
    "remote": "fsspec",
}


def need(package: str, extra: str) -> Any:
    """Imports an optional package.

    Raises:
        MissingExtraError: It is not installed.
    """
    try:
        return importlib.import_module(package)
    except ImportError as error:
        raise MissingExtraError(
            f"{package} cannot be imported ({error}); "
            f"install the extra `{extra}` of longhaul: pip install {_EXTRAS[extra]}"
        ) from error


def to_arrow(table: Table[Any]) -> pyarrow.Table:
    """An Arrow table, with units and meanings as metadata."""
    arrow = need("pyarrow", "arrow")
    types = {
        "string": arrow.string(),
        "double": arrow.float64(),
        "int64": arrow.int64(),
        "bool": arrow.bool_(),
        "list<int64>": arrow.list_(arrow.int64()),
    }
    schema = arrow.schema(
        [
            arrow.field(
                field.name,
                types[field.type],
                nullable=field.nullable,
                metadata={"unit": field.unit, "meaning": field.meaning},
            )
            for field in table.schema.fields
        ],
        metadata={"schema": table.schema.id},
    )
    made: pyarrow.Table = arrow.table(table.columns(), schema=schema)
    return made


def to_polars(table: Table[Any]) -> polars.DataFrame:
    """A Polars data frame."""
    pl = need("polars", "polars")
    types = {
        "string": pl.String,
        "double": pl.Float64,
        "int64": pl.Int64,
        "bool": pl.Boolean,
        "list<int64>": pl.List(pl.Int64),
    }
    schema = {field.name: types[field.type] for field in table.schema.fields}
    made: polars.DataFrame = pl.DataFrame(table.columns(), schema=schema)
    return made


def to_pandas(table: Table[Any]) -> pandas.DataFrame:
    """A pandas data frame."""
    pd = need("pandas", "pandas")
    # pandas' own types have no missing integers and booleans, so these are its nullable ones.
    types = {"string": "string", "double": "Float64", "int64": "Int64", "bool": "boolean", "list<int64>": "object"}
    columns = table.columns()
    series = {field.name: pd.Series(columns[field.name], dtype=types[field.type]) for field in table.schema.fields}
    made: pandas.DataFrame = pd.DataFrame(series)
    return made


def save(table: Table[Any], path: Path) -> Path:
    """Writes a table in the format that the path's suffix names."""
    writer = _WRITERS.get(path.suffix.lower())
    if writer is None:
        raise ValueError(f"{path}: unknown format {path.suffix!r}; a table is saved as {', '.join(_WRITERS)}")
    # A temporary file in the same folder, because only there a rename is atomic.
    name = str(path.with_name(f".{path.name}.{secrets.token_hex(4)}"))
    try:
        writer(table, name)
        os.replace(name, path)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(name)
        raise
    return path


def _save_parquet(table: Table[Any], name: str) -> None:
    made = to_arrow(table)
    need("pyarrow.parquet", "arrow").write_table(made, name)


def _save_arrow(table: Table[Any], name: str) -> None:
    made = to_arrow(table)
    need("pyarrow.feather", "arrow").write_feather(made, name)


def _save_csv(table: Table[Any], name: str) -> None:
    columns = table.columns()
    with open(name, "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(columns)
        writer.writerows([_csv_value(value) for value in row] for row in zip(*columns.values(), strict=True))


def _csv_value(value: object) -> object:
    if isinstance(value, bool):
        return "true" if value else "false"
    return json.dumps(value) if isinstance(value, tuple) else value


def _save_jsonl(table: Table[Any], name: str) -> None:
    names = [field.name for field in table.schema.fields]
    with open(name, "w", encoding="utf-8") as file:
        for row in table:
            file.write(json.dumps({name: getattr(row, name) for name in names}, ensure_ascii=False) + "\n")


_WRITERS: dict[str, Callable[[Table[Any], str], None]] = {
    ".parquet": _save_parquet,
    ".arrow": _save_arrow,
    ".csv": _save_csv,
    ".jsonl": _save_jsonl,
}
