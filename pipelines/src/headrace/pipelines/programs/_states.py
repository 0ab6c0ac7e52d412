"""The states of a program: bytes by field, stored as those of any other step."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from headrace.pipelines._errors import StateError
from headrace.pipelines.states._state import StateClass


class ProgramState:
    """The state of a key. Its attributes are the fields that it has, which are bytes."""


@dataclass(frozen=True)
class ProgramStates(StateClass):
    """The states of a program.

    Attributes:
        fields: The fields that the step declares.
    """

    fields: tuple[str, ...] = ()

    def unpack(self, packed: bytes) -> list[Any]:
        """Deserialises states.

        Raises:
            StateError: States have a field that the step does not declare.
        """
        states = StateClass.unpack(self, packed)
        unknown = _fields(states).difference(self.fields)
        if unknown:
            raise StateError(
                f"step {self.step}: the checkpoint has states with {', '.join(sorted(unknown))}, which state= does not name; "
                "name the field again, and have the program clear it, or give the step another name to start without states"
            )
        return states


def _fields(states: Sequence[Any]) -> set[str]:
    return set().union(*map(vars, states))
