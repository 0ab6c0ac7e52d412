"""Sequences of objects that are created on demand."""

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any, overload


class Lazy(Sequence[Any]):
    """A sequence whose values are created on the first access."""

    @cached_property
    @abstractmethod
    def made(self) -> Sequence[Any]:
        """The values, one by one."""

    @overload
    def __getitem__(self, index: int) -> Any: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[Any]: ...

    def __getitem__(self, index: int | slice) -> Any:
        """The value at an index, or some of them."""
        return self.made[index]

    def __iter__(self) -> Iterator[Any]:
        """Goes through all values."""
        return iter(self.made)
