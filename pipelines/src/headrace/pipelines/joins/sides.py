"""The steps before a join, which bring the values of both sides to it."""

from dataclasses import dataclass

from headrace.pipelines.elements.elements import Elements
from headrace.pipelines.steps.stateless import KeyBy
from headrace.pipelines.steps.step import Step, StepPass


@dataclass(frozen=True, eq=False)
class Entrance(Step):
    """Tells a join which side values belong to."""

    side: int

    def apply(self, elements: Elements, step_pass: StepPass) -> Elements:
        """The values, each with its side."""
        return elements.changed([(self.side, value) for value in elements.values])

    @property
    def label(self) -> str:
        """The side, in words."""
        return "right side" if self.side else "left side"


@dataclass(frozen=True, eq=False)
class SameKey(KeyBy):
    """A further shuffle by the key that values have, so that both sides of a join have as many."""

    keyed_by: str

    def apply(self, elements: Elements, step_pass: StepPass) -> Elements:
        """The same elements."""
        return elements

    @property
    def calls_function(self) -> bool:
        """False."""
        return False

    @property
    def by(self) -> str:
        """A description of the key, for the fingerprint."""
        return self.keyed_by
