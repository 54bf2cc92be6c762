"""The dataset: Parquet files below a folder or an fsspec URL.

A batch of captures writes one file per table, ``transfers/BATCH.parquet``, and last ``files/BATCH.parquet``. This one
is the commit record: it lists the captures, and its metadata the batch's other files. A batch without it does not
exist, so a worker may die at any moment. A batch's name is a digest of its captures, so a repeated task replaces its
own files.

A worker can outlive the program that started it. So that it does not commit what the next program explains too, every
program writes a token, and a worker commits only if the token is still its program's.
"""

from __future__ import annotations

import json
import os
import secrets
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..capture_tables import CAPTURE_SCHEMAS
from ..errors import LonghaulError
from ..export import need, to_arrow
from ..table import Table
from .tables import FILES, CaptureFile

__all__ = ["Batch", "Store", "is_url"]

_COMMITS = "files"
_TOKEN = "running"
_OPTIONS = "options.json"

#: A commit begins at most this long after its worker has seen the token, in seconds.
_COMMIT_LIMIT = 5.0


def is_url(path: str) -> bool:
    """Whether fsspec opens it: ``s3://…``, ``gs://…``, ``hdfs://…``."""
    return "://" in path


@dataclass(frozen=True)
class Batch:
    """A committed batch: its captures, and the tables in which it has rows."""

    name: str
    files: tuple[CaptureFile, ...]
    tables: tuple[str, ...]


class _Folder:
    """A folder of this machine, or one that all machines share."""

    def __init__(self, path: str) -> None:
        self._path = Path(path)

    def names(self, folder: str) -> set[str]:
        try:
            return set(os.listdir(self._path / folder))
        except (FileNotFoundError, NotADirectoryError):
            return set()

    def read(self, name: str) -> bytes | None:
        try:
            return (self._path / name).read_bytes()
        except FileNotFoundError:
            return None

    def write(self, name: str, content: bytes) -> None:
        path = self._path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        # Readers take `*.parquet`, which a temporary file is not.
        temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
        try:
            with open(temporary, "wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            os.replace(temporary, path)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise

    def remove(self, name: str) -> None:
        (self._path / name).unlink(missing_ok=True)


class _Remote:
    """An object store or another file system of fsspec. Object stores show an object when it is complete."""

    def __init__(self, url: str) -> None:
        self._fs, self._path = need("fsspec", "remote").core.url_to_fs(url)

    def names(self, folder: str) -> set[str]:
        self._fs.invalidate_cache()
        try:
            return {str(one).rstrip("/").rpartition("/")[2] for one in self._fs.ls(self._at(folder), detail=False)}
        except FileNotFoundError:
            return set()

    def read(self, name: str) -> bytes | None:
        try:
            return bytes(self._fs.cat_file(self._at(name)))
        except FileNotFoundError:
            return None

    def write(self, name: str, content: bytes) -> None:
        path = self._at(name)
        self._fs.makedirs(path.rpartition("/")[0], exist_ok=True)
        self._fs.pipe_file(path, content)

    def remove(self, name: str) -> None:
        try:
            self._fs.rm_file(self._at(name))
        except FileNotFoundError:
            return

    def _at(self, name: str) -> str:
        return f"{self._path.rstrip('/')}/{name}"


class Store:
    """A dataset of explanations."""

    def __init__(self, out: str) -> None:
        need("pyarrow", "arrow")
        self.out = out
        self._files: _Folder | _Remote = _Remote(out) if is_url(out) else _Folder(out)

    def begin(self, options: Mapping[str, object]) -> str:
        """Takes the dataset for this program, and returns the token.

        Raises:
            ValueError: It was made with other options, so its rows cannot be compared with new ones.
        """
        old = self._files.read(_OPTIONS)
        if old is not None and json.loads(old) != dict(options):
            raise ValueError(f"{self.out} was made with the options {old.decode()}; choose another `out`")
        interrupted = self._files.read(_TOKEN) is not None
        token = secrets.token_hex(8)
        self._files.write(_TOKEN, token.encode())
        self._files.write(_OPTIONS, json.dumps(dict(options)).encode())
        if interrupted:
            # Workers of the interrupted program may be committing.
            time.sleep(_COMMIT_LIMIT)
        return token

    def end(self, token: str) -> None:
        """Gives the dataset back."""
        if self.is_held(token):
            self._files.remove(_TOKEN)

    def is_held(self, token: str) -> bool:
        """Whether no other program has taken the dataset since."""
        return self._files.read(_TOKEN) == token.encode()

    def batches(self) -> Iterator[Batch]:
        """All complete batches, one after another."""
        there = {schema.name: self._files.names(schema.name) for schema in CAPTURE_SCHEMAS}
        for file in sorted(self._files.names(_COMMITS)):
            name = file.removesuffix(".parquet")
            table = self._parquet(_COMMITS, name) if name != file and not file.startswith(".") else None
            if table is None:
                continue
            tables = tuple(json.loads(table.schema.metadata[b"tables"]))
            if all(file in there[one] for one in tables):
                yield Batch(name, tuple(CaptureFile(**row) for row in table.to_pylist()), tables)

    def rows(self, batch: Batch, table: str, columns: Iterable[str]) -> list[dict[str, Any]]:
        """Rows of a batch in one table."""
        found = self._parquet(table, batch.name) if table in batch.tables else None
        return [] if found is None else list(found.select(list(columns)).to_pylist())

    def remove_incomplete(self, complete: Iterable[str]) -> None:
        """Removes the files of batches that were not committed."""
        names = {f"{name}.parquet" for name in complete}
        # The commit record first, because without it the others do not count.
        for folder in (_COMMITS, *(schema.name for schema in CAPTURE_SCHEMAS)):
            for file in self._files.names(folder) - names:
                self._files.remove(f"{folder}/{file}")

    def forget(self, batch: Batch, captures: set[str]) -> None:
        """Removes these captures from a batch, because they are explained again in another one."""
        kept = tuple(file for file in batch.files if file.capture not in captures)
        if not kept:
            self._files.remove(f"{_COMMITS}/{batch.name}.parquet")
            return
        compute = need("pyarrow.compute", "arrow")
        # The commit record is last: until then it lists the old captures, and the next program repeats this.
        for name in batch.tables:
            table = self._parquet(name, batch.name)
            others = compute.invert(compute.is_in(table["capture"], need("pyarrow", "arrow").array(captures)))
            self._write(name, batch.name, table.filter(others))
        self._write_commit(batch.name, kept, batch.tables)

    def commit(
        self, name: str, token: str, files: Iterable[CaptureFile], tables: Mapping[str, list[tuple[str, Any]]]
    ) -> None:
        """Writes a batch: the rows of each table with their captures, and then its commit record.

        Raises:
            LonghaulError: Another program has taken the dataset.
        """
        arrow = need("pyarrow", "arrow")
        made = {}
        # One conversion per batch: for small captures, one per capture takes as long as haul does.
        for schema in CAPTURE_SCHEMAS:
            rows = tables.get(schema.name)
            if rows:
                made[schema.name] = table = to_arrow(Table(schema, tuple(row for _, row in rows)))
                if "capture" not in table.column_names:
                    made[schema.name] = table.add_column(0, "capture", arrow.array([capture for capture, _ in rows]))
        if not self.is_held(token):
            raise LonghaulError(f"{self.out} is being written by another program; this one ends")
        for folder, table in made.items():
            self._write(folder, name, table)
        self._write_commit(name, files, made)

    def _write_commit(self, name: str, files: Iterable[CaptureFile], tables: Iterable[str]) -> None:
        made = to_arrow(Table(FILES, tuple(files)))
        made = made.replace_schema_metadata({**made.schema.metadata, b"tables": json.dumps(list(tables)).encode()})
        self._write(_COMMITS, name, made)

    def _write(self, folder: str, name: str, table: Any) -> None:
        sink = need("pyarrow", "arrow").BufferOutputStream()
        need("pyarrow.parquet", "arrow").write_table(table, sink)
        self._files.write(f"{folder}/{name}.parquet", sink.getvalue().to_pybytes())

    def _parquet(self, folder: str, name: str) -> Any:
        content = self._files.read(f"{folder}/{name}.parquet")
        if content is None:
            return None
        arrow = need("pyarrow", "arrow")
        return need("pyarrow.parquet", "arrow").read_table(
            arrow.BufferReader(content), use_threads=False, pre_buffer=False
        )
