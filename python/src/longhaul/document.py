"""Reading JSON documents. Every error names the file and the place in it: ``run.json: cells[3].floor_s is missing``."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from .errors import DocumentError

__all__ = ["Node", "check_schema"]


@dataclass(frozen=True)
class Node:
    """An object of a JSON document. Fields that are absent are treated as null."""

    value: dict[str, Any]
    #: The file's name, and then the place of this object in it.
    file: str
    place: str = ""

    def text(self, key: str) -> str:
        """A text."""
        return str(self._typed(key, str, "text"))

    def optional_text(self, key: str) -> str | None:
        """A text, or None."""
        return None if self.value.get(key) is None else self.text(key)

    def boolean(self, key: str) -> bool:
        """True or false."""
        return bool(self._typed(key, bool, "true or false"))

    def optional_boolean(self, key: str) -> bool | None:
        """True or false, or None."""
        return None if self.value.get(key) is None else self.boolean(key)

    def number(self, key: str) -> float:
        """A number."""
        return _number(self._known(key), self._path(key), self.file)

    def optional_number(self, key: str) -> float | None:
        """A number, or None."""
        return None if self.value.get(key) is None else self.number(key)

    def integer(self, key: str) -> int:
        """A whole number."""
        number = self.number(key)
        if number != int(number):
            raise self._error(key, "a whole number")
        return int(self.value[key])

    def optional_integer(self, key: str) -> int | None:
        """A whole number, or None."""
        return None if self.value.get(key) is None else self.integer(key)

    def numbers(self, key: str) -> list[float]:
        """An array of numbers; empty if absent."""
        return [_number(one, f"{self._path(key)}[{index}]", self.file) for index, one in enumerate(self._array(key))]

    def interval(self, key: str) -> tuple[float | None, float | None]:
        """A pair of numbers, or two None."""
        if self.value.get(key) is None:
            return None, None
        pair = self.numbers(key)
        if len(pair) != 2:
            raise self._error(key, "a pair of numbers")
        return pair[0], pair[1]

    def texts(self, key: str) -> list[str]:
        """An array of texts; empty if absent."""
        texts = self._array(key)
        if not all(isinstance(text, str) for text in texts):
            raise self._error(key, "an array of texts")
        return texts

    def node(self, key: str) -> Node | None:
        """An object, or None."""
        if self.value.get(key) is None:
            return None
        return Node(self._typed(key, dict, "an object"), self.file, self._path(key))

    def nodes(self, key: str) -> Iterator[Node]:
        """An array of objects; empty if absent."""
        for index, one in enumerate(self._array(key)):
            place = f"{self._path(key)}[{index}]"
            if not isinstance(one, dict):
                raise DocumentError(f"{self.file}: {place} is not an object")
            yield Node(one, self.file, place)

    def numbers_by_name(self, key: str) -> dict[str, float]:
        """An object of numbers; empty if absent."""
        node = self.node(key)
        return {} if node is None else {name: node.number(name) for name in node.value}

    def _array(self, key: str) -> list[Any]:
        return [] if self.value.get(key) is None else self._typed(key, list, "an array")

    def _known(self, key: str) -> Any:
        value = self.value.get(key)
        if value is None:
            raise DocumentError(f"{self.file}: {self._path(key)} is missing")
        return value

    def _typed(self, key: str, kind: type, name: str) -> Any:
        value = self._known(key)
        if not isinstance(value, kind):
            raise self._error(key, name)
        return value

    def _error(self, key: str, expected: str) -> DocumentError:
        return DocumentError(f"{self.file}: {self._path(key)} is not {expected}")

    def _path(self, key: str) -> str:
        return f"{self.place}.{key}" if self.place else key


def _number(value: object, place: str, file: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise DocumentError(f"{file}: {place} is not a number")
    return value


def check_schema(document: dict[str, Any], known: str, file: str) -> Node:
    """The document as a node, if it has the schema that this package reads.

    Raises:
        DocumentError: It has none, or another one.
    """
    schema = document.get("schema")
    if schema == known:
        return Node(document, file)
    if not isinstance(schema, str):
        raise DocumentError(f"{file} has no field `schema`; a document of haul has {known}")
    name, _, _ = known.partition("/")
    advice = "install a newer longhaul" if schema.startswith(f"{name}/") else f"expected {known}"
    raise DocumentError(f"{file} has the schema {schema}, and this longhaul reads {known}; {advice}")
