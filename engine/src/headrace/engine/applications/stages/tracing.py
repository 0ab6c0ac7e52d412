"""The spans of an application: each worker exports its own, if the standard variables name an endpoint."""

import logging
import os
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from importlib.metadata import version
from typing import TYPE_CHECKING

from headrace.engine.applications.stages.packed import PackedHeaders
from headrace.engine.codec import Columns
from headrace.telemetry import Contexts, export_endpoint, sampled

if TYPE_CHECKING:
    from headrace.telemetry.spans import Spans

DELAY_MS = 250
"""How long a worker collects spans for an export: Spark may end it at any time."""
_DELAY_VARIABLE = "OTEL_BSP_SCHEDULE_DELAY"

_log = logging.getLogger(__name__)
_spans_of: "dict[int, Spans | None]" = {}
"""By process id, since a worker is a fork of a process that imports this module."""


class Processing:
    """A piece of a stream, or the blocks of a bucket, while steps process them."""

    def __init__(self) -> None:
        self.contexts = Contexts()
        self.messages = 0

    def take_frames(self, frames: Iterable[Columns]) -> None:
        """Adds the messages of frames."""
        for frame in frames:
            self.messages += frame.rows
            if frame.header_counts and not self.contexts.is_full:
                columns = frame.header_names, frame.header_name_lengths, frame.header_values, frame.header_value_lengths
                self.contexts.take(sampled(*columns))

    def take_headers(self, headers: PackedHeaders | None, messages: int) -> None:
        """Adds the messages of a block, with their headers if it has them."""
        self.messages += messages
        if headers is not None and not self.contexts.is_full:
            names, values = headers.names, headers.values
            self.contexts.take(sampled(names.data, names.lengths.tobytes(), values.data, values.lengths.tobytes()))


@contextmanager
def processing(destination: str, pipeline: str, level: int) -> Iterator[Processing | None]:
    """Creates the span `process` of what the block processes, if any of it is sampled.

    Args:
        destination: The stream, or the pipeline where several streams are processed.
        pipeline: The pipeline.
        level: The number of shuffles before the steps.

    Yields:
        Where the block notes its messages; None if no spans are exported.
    """
    spans = _spans()
    if spans is None:
        yield None
        return
    from headrace.telemetry.spans import Operation

    found, begun_ns, error = Processing(), time.time_ns(), None
    try:
        yield found
    except BaseException as raised:
        error = type(raised).__name__
        raise
    finally:
        attributes: dict[str, str | int] = {"headrace.pipeline": pipeline, "headrace.stage": level}
        spans.record(Operation.PROCESS, destination, found.contexts, found.messages, begun_ns, attributes, error)
        if error is not None and found.contexts:
            # The task fails, and its worker may end.
            spans.flush()


def _spans() -> "Spans | None":
    process = os.getpid()
    if process not in _spans_of:
        _spans_of[process] = _new_spans()
    return _spans_of[process]


def _new_spans() -> "Spans | None":
    endpoint = export_endpoint("traces")
    if endpoint is None:
        return None
    try:
        # Imported here: a worker that exports nothing does not pay for it.
        from headrace.telemetry.spans import Spans

        return Spans(
            endpoint, "headrace-engine", version("headrace-engine"), delay_ms=None if _DELAY_VARIABLE in os.environ else DELAY_MS
        )
    except ImportError as error:
        _log.warning("spans are not exported: %s; install headrace-engine[telemetry]", error)
    except Exception as error:
        # The exporter reads the standard variables itself, and files that they name.
        _log.warning("spans are not exported to %s: %s: %s", endpoint, type(error).__name__, error)
    return None
