"""Tables: types, conversions and files."""

from __future__ import annotations

import csv
import json
import os
import sys
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
from conftest import UPLOAD

import longhaul
from longhaul.schemas import SCHEMAS
from longhaul.table import Schema

pytestmark = pytest.mark.usefixtures("haul")


@pytest.fixture(scope="module")
def explanation() -> longhaul.Explanation:
    return longhaul.explain(UPLOAD, bytes="18MB")


@pytest.mark.parametrize("schema", SCHEMAS, ids=lambda schema: schema.name)
def test_every_column_is_described(schema: Schema[Any]) -> None:
    assert [field.name for field in schema.fields] == [field.name for field in fields(schema.row)]
    for field in schema.fields:
        assert field.meaning, field
        assert not field.meaning.endswith("."), field
        ends = {"_s": "s", "seconds": "s", "_ms": "ms", "_bits": "bit/s"}
        for end, unit in ends.items():
            assert not field.name.endswith(end) or field.unit == unit, field


def test_every_table_is_named_once() -> None:
    assert len({schema.id for schema in SCHEMAS}) == len(SCHEMAS)


def test_arrow_schema_has_units_and_the_tables_version(explanation: longhaul.Explanation) -> None:
    arrow = pytest.importorskip("pyarrow", reason="the extra `arrow` is not installed")
    for name, table in explanation.tables.items():
        made = table.to_arrow()
        assert made.num_rows == len(table)
        assert made.schema.metadata == {b"schema": f"longhaul.{name}/1".encode()}
        for field, arrow_field in zip(table.schema.fields, made.schema, strict=True):
            assert arrow_field.metadata == {b"unit": field.unit.encode(), b"meaning": field.meaning.encode()}
            assert arrow_field.nullable == field.nullable
            assert str(arrow_field.type).replace("item: ", "") == field.type
    assert explanation.to_arrow("findings").column("packets").type == arrow.list_(arrow.int64())


def test_all_data_frames_have_the_same_values(explanation: longhaul.Explanation) -> None:
    pytest.importorskip("polars", reason="the extra `polars` is not installed")
    pytest.importorskip("pandas", reason="the extra `pandas` is not installed")
    for name, table in explanation.tables.items():
        columns = table.columns()
        plain = {key: [list(value) if isinstance(value, tuple) else value for value in columns[key]] for key in columns}
        assert explanation.to_polars(name).to_dict(as_series=False) == plain
        assert explanation.to_pandas(name).astype(object).where(lambda frame: frame.notna(), None).to_dict("list") == {
            key: list(values) for key, values in columns.items()
        }


def test_parquet_keeps_rows_and_schema(explanation: longhaul.Explanation, tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet", reason="the extra `arrow` is not installed")
    feather = pytest.importorskip("pyarrow.feather", reason="the extra `arrow` is not installed")
    path = explanation.save(tmp_path / "x.parquet")
    assert parquet.read_table(path).equals(explanation.to_arrow(), check_metadata=True)
    path = explanation.save(tmp_path / "x.arrow", "causes")
    assert feather.read_table(path).equals(explanation.causes.to_arrow(), check_metadata=True)
    assert sorted(os.listdir(tmp_path)) == ["x.arrow", "x.parquet"]


def test_text_files_need_no_package(explanation: longhaul.Explanation, tmp_path: Path) -> None:
    with explanation.findings.save(tmp_path / "x.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert rows[0]["packets"] == "[416]"
    assert float(rows[0]["cost_s"]) == explanation.findings[0].cost_s
    lines = explanation.save(tmp_path / "x.jsonl").read_text().splitlines()
    assert json.loads(lines[0])["cause"] == "delayed_ack"


def test_unknown_file_format_lists_the_known_ones(explanation: longhaul.Explanation, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"unknown format '\.xls'.*\.parquet, \.arrow, \.csv, \.jsonl"):
        explanation.save(tmp_path / "x.xls")
    with pytest.raises(FileNotFoundError):
        explanation.save(tmp_path / "nowhere" / "x.csv")
    assert os.listdir(tmp_path) == []


def test_missing_package_names_its_extra(explanation: longhaul.Explanation, monkeypatch: pytest.MonkeyPatch) -> None:
    for package, convert in (
        ("pyarrow", explanation.to_arrow),
        ("polars", explanation.to_polars),
        ("pandas", explanation.to_pandas),
    ):
        monkeypatch.setitem(sys.modules, package, None)
        extra = {"pyarrow": "arrow"}.get(package, package)
        with pytest.raises(
            longhaul.MissingExtraError, match=rf"^{package} cannot .* `{extra}` .*pip install {package}$"
        ):
            convert()


def test_unknown_table_lists_the_known_ones(explanation: longhaul.Explanation) -> None:
    with pytest.raises(ValueError, match="unknown table 'nope'; available: transfers, causes"):
        explanation.table("nope")


def test_table_is_a_sequence_of_rows(explanation: longhaul.Explanation) -> None:
    causes = explanation.causes
    assert causes[0] in causes
    assert list(causes[:2]) == list(causes)[:2]
    assert causes[:2].schema is causes.schema
    assert "longhaul.causes/1" in repr(causes)
