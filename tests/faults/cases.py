"""What is done to a world of processes: which of its parts are killed and started again, and when."""

from collections.abc import Callable, Sequence
from typing import Protocol, TypeAlias, TypeVar


class Parts(Protocol):
    """A world whose parts have names."""

    def kill(self, part: str) -> None:
        """SIGKILL to all processes of a part."""

    def restart(self, part: str) -> None:
        """Starts them again."""

    def wait_until_back(self, part: str) -> None:
        """Waits until the others see that it has been started again. The messages that it missed are still to come."""


_W = TypeVar("_W")
Case: TypeAlias = Callable[[_W], None]


def one(part: str) -> Case[Parts]:
    """It is killed and started again."""

    def case(world: Parts) -> None:
        world.kill(part)
        world.restart(part)

    return case


def all_of(parts: Sequence[str]) -> Case[Parts]:
    """All of these are away at the same time."""

    def case(world: Parts) -> None:
        for part in parts:
            world.kill(part)
        for part in parts:
            world.restart(part)

    return case


def in_recovery(first: str, second: str) -> Case[Parts]:
    """The second is killed as soon as the first is back, before it has caught up."""

    def case(world: Parts) -> None:
        world.kill(first)
        world.restart(first)
        world.wait_until_back(first)
        world.kill(second)
        world.restart(second)

    return case
