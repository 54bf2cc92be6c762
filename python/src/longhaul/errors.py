"""What can go wrong, as exceptions. Their text is a sentence for people: haul's own wherever haul failed."""

from __future__ import annotations

__all__ = [
    "DocumentError",
    "HaulError",
    "HaulNotFoundError",
    "LonghaulError",
    "LonghaulWarning",
    "MissingExtraError",
    "UsageError",
]


class LonghaulError(Exception):
    """Base class of all exceptions of this package."""


class HaulNotFoundError(LonghaulError):
    """The program ``haul`` is not installed, or cannot be started."""


class HaulError(LonghaulError):
    """``haul`` failed. The text is its sentence.

    Attributes:
        status: The exit status; negative if a signal killed the program.
        result: What was measured or explained in spite of the error, or None.
    """

    def __init__(self, sentence: str, *, status: int = 1, result: object = None) -> None:
        super().__init__(sentence)
        self.sentence = sentence
        self.status = status
        self.result = result

    def __reduce__(self) -> tuple[object, ...]:
        # Exceptions cross process boundaries by pickle, which knows only positional arguments.
        return (_rebuilt, (type(self), self.sentence, self.status, self.result))


def _rebuilt(kind: type[HaulError], sentence: str, status: int, result: object) -> HaulError:
    return kind(sentence, status=status, result=result)


class UsageError(HaulError, ValueError):
    """``haul`` does not accept an argument: exit status 2."""


class DocumentError(LonghaulError, ValueError):
    """A JSON document has an unknown schema, or lacks what its schema promises."""


class MissingExtraError(LonghaulError, ImportError):
    """An optional package is needed and not installed. The text names the extra that brings it."""


class LonghaulWarning(UserWarning):
    """``haul`` succeeded, but had something to say, such as that a capture breaks off."""
