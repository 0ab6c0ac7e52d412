"""Decodes the messages of a source under a contract, and notes what the contract permits."""

import logging
from typing import Any

from headrace.pipelines.elements.elements import Elements
from headrace.pipelines.formats import Judge, Violation
from headrace.pipelines.steps.step import Counted, Step, StepPass, each

log = logging.getLogger("headrace.pipelines")

_MAX_NOTED = 10_000
_noted = set[tuple[str, str, str]]()
"""The fields that this process has logged, by step and stream."""


def judged(step: Step, judge: Judge, part: str, elements: Elements, step_pass: StepPass) -> tuple[list[Any], Elements]:
    """The values of messages, and the elements whose messages could be read, with what the contract permits noted and counted.

    Args:
        step: The source.
        judge: Reads the payloads.
        part: The part of the source that has the contract, for counts; empty for all of it.
        elements: The messages.
        step_pass: The pass.
    """
    values = judge.at_once(elements.values)
    if values is not None:
        return values, elements
    counts = dict.fromkeys((Counted.FURTHER, Counted.DISCARDED, Counted.VIOLATED), 0)
    index = -1

    def read(payload: bytes | None) -> Any:
        nonlocal index
        index += 1
        try:
            found = judge(payload)
        except Violation:
            counts[Counted.VIOLATED] += 1
            raise
        counts[Counted.FURTHER] += bool(found.further)
        counts[Counted.DISCARDED] += bool(found.discarded)
        for path in found.further:
            _note(step, path, elements, index)
        return found.value

    found = each(step, read, elements, step_pass)
    for what, count in counts.items():
        if count:
            step_pass.count(what, step.name, count, part)
    return found


def _note(step: Step, path: str, elements: Elements, index: int) -> None:
    stream = elements.origin.stream
    if (step.name, stream, path) not in _noted and len(_noted) < _MAX_NOTED:
        _noted.add((step.name, stream, path))
        sequence = int(elements.origin.sequences[elements.place(index)])
        text = "step %s, stream %s, sequence %d: the class has no field %s, which is logged once"
        log.warning(text, step.name, stream, sequence, path)
