"""The headers of messages, and of the values that come from them."""

from abc import abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, overload

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    import pyarrow as pa

Header = tuple[str, bytes | None]
"""A name, and a value that may be None."""


class Headers(tuple[Header, ...]):
    """Headers in their order: a tuple of names and values. A name may occur more than once.

    ```python
    headers = Headers([("tenant", b"a")])
    assert headers.get("tenant") == b"a"
    assert headers.with_header("tenant", b"b") == (("tenant", b"b"),)
    ```
    """

    __slots__ = ()

    def get(self, name: str, default: bytes | None = None) -> bytes | None:
        """Returns the last value of a name; `default` if there is none.

        Raises:
            TypeError: The name is not text.
        """
        _check_names(name)
        return next((value for known, value in reversed(self) if known == name), default)

    def with_header(self, name: str, value: bytes | None) -> "Headers":
        """Returns these headers with one more, which replaces all of its name.

        Raises:
            TypeError: The name is not text, or the value neither bytes nor None.
        """
        return checked((*self.without(name), (name, value)))

    def without(self, *names: str) -> "Headers":
        """Returns these headers except headers with one of the names.

        Raises:
            TypeError: A name is not text.
        """
        _check_names(*names)
        return Headers(header for header in self if header[0] not in names)


def _check_names(*names: Any) -> None:
    for name in names:
        if not isinstance(name, str):
            raise TypeError(f"the name of a header is a str, not {type(name).__name__}")


NO_HEADERS = Headers()


class Lazy(Sequence[Any]):
    """A sequence whose values are created on the first access."""

    @cached_property
    @abstractmethod
    def objects(self) -> Sequence[Any]:
        """The values, one by one."""

    @overload
    def __getitem__(self, index: int) -> Any: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[Any]: ...

    def __getitem__(self, index: int | slice) -> Any:
        """The value at an index, or some of them."""
        return self.objects[index]

    def __iter__(self) -> Iterator[Any]:
        """Goes through all values."""
        return iter(self.objects)


class HeadersColumn(Lazy):
    """The headers of many messages as columns. Each message's `Headers` are created on the first access."""

    @abstractmethod
    def take(self, indices: npt.NDArray[np.int64]) -> "HeadersColumn":
        """The headers of the messages at these indices."""

    @abstractmethod
    def array(self) -> "pa.Array":
        """The column as an Arrow array of lists of structs, without nulls: a `name`, string, and a `value`, binary."""


def checked(headers: Iterable[Any]) -> Headers:
    """Headers that a function returned.

    Raises:
        TypeError: One is not a pair of a str and bytes or None.
        UnicodeEncodeError: A name is not valid Unicode.
    """
    found = Headers(headers)
    for header in found:
        if not isinstance(header, tuple) or len(header) != 2:
            raise TypeError(f"a header must be a pair of a name and a value, not a {type(header).__name__}")
        name, value = header
        if not isinstance(name, str) or not (value is None or isinstance(value, bytes)):
            kinds = f"{type(name).__name__} and {type(value).__name__}"
            raise TypeError(f"a header must be a str and bytes or None, not {kinds}")
        name.encode()
    return found


def select(headers: Sequence[Headers], indices: Sequence[int]) -> Sequence[Headers]:
    """The headers at these indices."""
    if isinstance(headers, HeadersColumn):
        return headers.take(np.asarray(indices, np.int64))
    return [headers[index] for index in indices]
