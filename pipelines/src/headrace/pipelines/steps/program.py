"""The step whose function is a program in any language."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from headrace.pipelines.elements.elements import Elements, Key, States
from headrace.pipelines.elements.message import Message
from headrace.pipelines.elements.rows import Rows
from headrace.pipelines.programs.blocks import ProgramState, ProgramStates
from headrace.pipelines.programs.program import Program
from headrace.pipelines.steps.bound import Bound
from headrace.pipelines.steps.step import KeyedStep, StepPass, each


class ProgramFailure(Exception):
    """The program could not process a message, for the reason that it gave."""


@dataclass(frozen=True, eq=False)
class StatefulProgram(KeyedStep):
    """Has a program process the values of each key, with their states.

    Attributes:
        program: The program.
        encode: Returns the payload of a value.
    """

    program: Program
    encode: Callable[[Any], bytes | None]

    @cached_property
    def state_class(self) -> ProgramStates:
        """The states: bytes by field."""
        return ProgramStates(ProgramState, self.name, self.program.fields)

    @property
    def bound(self) -> Bound:
        """None, unless the program clears states."""
        return Bound("the state of each key", "have the program clear all fields of a key, or set max_keys")

    @property
    def kind(self) -> str:
        """Not for functions: their states are not bytes."""
        return "program"

    @property
    def label(self) -> str:
        """The kind, with the command."""
        return f"program {self.program.command[0]}"

    def apply(self, elements: Elements, step_pass: StepPass) -> Elements:
        """The results of the program, in the order of the elements.

        Raises:
            ProgramError: The program has ended, is late, or has broken the protocol.
        """
        # They need the stubs of the protocol, which no other step does.
        from headrace.pipelines.programs.blocks import Messages, outcome_of
        from headrace.pipelines.programs.columns import ColumnError
        from headrace.pipelines.programs.process import running

        values, elements = self._payloads(elements, step_pass)
        messages, states, fields = Messages(elements, values), step_pass.states(self.name), self.program.fields
        made, indices, at = list[bytes](), list[int](), 0
        process = running(self.program, step_pass.folder)
        while at < len(messages):
            block = messages.block(at, states, fields)
            at += block.count
            results = process.process(block.request, block.count)
            try:
                outcome = outcome_of(block, results, fields)
            except ColumnError as error:
                raise process.failed(f"broke the protocol: {error}") from None
            made += outcome.values
            indices += outcome.indices
            self._store(outcome.changed, states, step_pass)
            for index, reason in outcome.failed:
                step_pass.failed(self, elements, index, ProgramFailure(reason))
        return elements.changed(made, indices)

    @property
    def display_class(self) -> None:
        """None: see `display`."""
        return None

    def display(self, state: Any) -> dict[str, bytes]:
        """The fields of a state."""
        return dict(vars(state))

    def _store(self, changed: Sequence[tuple[Key, Any]], states: States, step_pass: StepPass) -> None:
        for key, state in changed:
            if state is None:
                states.pop(key, None)
            else:
                states[key] = state
        step_pass.touched(self.name, [key for key, _ in changed])

    def _payloads(self, elements: Elements, step_pass: StepPass) -> tuple[Sequence[bytes | None], Elements]:
        """The payloads, and the elements that have one."""
        values = elements.values
        if isinstance(values, Rows) and self.encode is payload and "value" in values.batch.schema.names:
            return values.batch.column("value").to_pylist(), elements
        return each(self, lambda value: _checked(self.encode(value)), elements, step_pass)


def payload(value: Any) -> bytes | None:
    """The default payload of a value: bytes as they are, text in UTF-8, and the payload of a message.

    Raises:
        TypeError: The value is of another type.
    """
    if isinstance(value, Message):
        return value.value
    if isinstance(value, str):
        return value.encode()
    if value is None or isinstance(value, bytes):
        return value
    raise TypeError(f"cannot pass a value of type {type(value).__name__} to a program: pass an encode function to the step")


def _checked(result: bytes | None) -> bytes | None:
    if result is None or isinstance(result, bytes):
        return result
    raise TypeError(f"encode returned a value of type {type(result).__name__}; a payload must be bytes")
