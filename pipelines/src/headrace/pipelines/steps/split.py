"""The steps that divide values among several flows."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from headrace.pipelines.arguments import excerpt
from headrace.pipelines.elements.elements import Elements
from headrace.pipelines.steps.step import Step, StepPass, each


@dataclass(frozen=True, eq=False)
class Split(Step):
    """Tells which flow each value belongs to.

    Attributes:
        function: Returns the name of the flow; None to drop the value.
        into: The names that there are.
    """

    function: Callable[[Any], str | None]
    into: tuple[str, ...]

    def apply(self, elements: Elements, step_pass: StepPass) -> Elements:
        """The values, each with the name of its flow."""
        names, kept = each(self, self._name, elements, step_pass)
        there = [index for index, name in enumerate(names) if name is not None]
        return kept.changed([(names[index], kept.values[index]) for index in there], there)

    @property
    def divides(self) -> bool:
        """True: each result is for one of the flows."""
        return True

    def _name(self, value: Any) -> str | None:
        name = self.function(value)
        if name is None or (isinstance(name, str) and name in self.into):
            return name
        raise ValueError(f"the function returned {excerpt(name)}, which is none of {', '.join(map(repr, self.into))}")


@dataclass(frozen=True, eq=False)
class Part(Step):
    """The values of one of the flows.

    Attributes:
        flow: Its name.
    """

    flow: str

    def apply(self, elements: Elements, step_pass: StepPass) -> Elements:
        """The values with this name, without it."""
        there = [index for index, (name, _) in enumerate(elements.values) if name == self.flow]
        return elements.changed([elements.values[index][1] for index in there], there)

    @property
    def calls_function(self) -> bool:
        """False."""
        return False
