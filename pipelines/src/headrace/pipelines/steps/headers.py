"""The steps that read and set headers."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from headrace.pipelines.elements.elements import Elements
from headrace.pipelines.elements.headers import NO_HEADERS, Header, Headers, checked
from headrace.pipelines.steps.stateless import without_none
from headrace.pipelines.steps.step import Step, StepPass, each


@dataclass(frozen=True, eq=False)
class MapWithHeaders(Step):
    """One result for each value and its headers, or none."""

    function: Callable[[Any, Headers], Any]

    def apply(self, elements: Elements, step_pass: StepPass) -> Elements:
        """The results of the function, without None."""
        values, headers = elements.values, _headers_of(elements)
        indexed = replace(elements, values=range(len(elements)))
        made, kept = each(self, lambda index: self.function(values[index], headers[index]), indexed, step_pass)
        return replace(without_none(made, kept), decoded_by=None)

    @property
    def reads_headers(self) -> bool:
        """True."""
        return True

    @property
    def label(self) -> str:
        """The name of the method that adds it."""
        return "map_with_headers"


@dataclass(frozen=True, eq=False)
class SetHeaders(Step):
    """Sets the headers of each value."""

    function: Callable[[Any, Headers], Iterable[Header]]

    def apply(self, elements: Elements, step_pass: StepPass) -> Elements:
        """The same values with these headers."""
        values, headers = elements.values, _headers_of(elements)
        indexed = replace(elements, values=range(len(elements)))
        made, kept = each(self, lambda index: checked(self.function(values[index], headers[index])), indexed, step_pass)
        return replace(elements if kept is indexed else elements.pick(kept.values), headers=made)

    @property
    def reads_headers(self) -> bool:
        """True."""
        return True

    @property
    def label(self) -> str:
        """The name of the method that adds it."""
        return "set_headers"


def _headers_of(elements: Elements) -> Sequence[Headers]:
    headers = elements.own_headers()
    return [NO_HEADERS] * len(elements) if headers is None else headers
