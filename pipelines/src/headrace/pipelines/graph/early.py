"""Checks what follows windows with early results."""

from collections.abc import Sequence

from headrace.pipelines._errors import GraphError
from headrace.pipelines.steps.step import Step
from headrace.pipelines.windows.step import TimeWindows


def check_early_results(pipeline: str, steps: Sequence[Step], consumers: Sequence[Sequence[int]]) -> None:
    """Checks that no step that follows early results depends on event time, which has not come to them yet.

    Raises:
        GraphError: One does.
    """
    after: dict[int, str] = {}
    for number, step in enumerate(steps):
        if number in after and step.uses_time:
            raise GraphError(
                f"pipeline {pipeline}: step {step.name} depends on event time, and follows the early results of step "
                f"{after[number]}, to which it has not come yet: remove emit_every, or add a window without it for this step"
            )
        if isinstance(step, TimeWindows) and step.emit_every is not None:
            after[number] = step.name
        if number in after:
            after.update(dict.fromkeys(consumers[number], after[number]))
