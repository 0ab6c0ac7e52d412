"""Checks, and the list of them."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

T = TypeVar("T")
Body = Callable[[T], Awaitable[None]]


@dataclass(frozen=True)
class Check(Generic[T]):
    """One check.

    Attributes:
        name: Its name, as `--only` takes it.
        fault: One sentence that says what is wrong with a connector that fails it.
        rules: The rules of the protocol that it judges, such as `SRC-12`.
        needs: The declarations in the specification without which it cannot run.
        standing: True if the rule holds in every session, so that a breach in the run of any other check fails this one, too.
        run: Judges one connector.
    """

    name: str
    fault: str
    rules: tuple[str, ...]
    needs: tuple[str, ...]
    standing: bool
    run: Body[T]


class Checks(Generic[T]):
    """The checks for one kind of connector, in the order in which they are listed."""

    def __init__(self) -> None:
        self._checks: dict[str, Check[T]] = {}

    def check(self, name: str, *rules: str, needs: tuple[str, ...] = (), standing: bool = False) -> Callable[[Body[T]], Body[T]]:
        """Declares a function as a check; its docstring is the sentence that says what is wrong."""

        def declare(run: Body[T]) -> Body[T]:
            assert name not in self._checks, name
            assert run.__doc__ is not None, name
            fault = " ".join(run.__doc__.split())
            self._checks[name] = Check(name, fault, rules, needs, standing, run)
            return run

        return declare

    @property
    def all(self) -> tuple[Check[T], ...]:
        """All checks."""
        return tuple(self._checks.values())
