"""The history of an application: found at the first start, and kept by the checkpoint."""

import json
from collections.abc import Mapping

from headrace.engine._errors import CheckpointError, OptionError
from headrace.engine.checkpoint.log import CheckpointLog
from headrace.engine.history.order import SLICE_MESSAGES, build, request_of
from headrace.engine.history.request import History
from headrace.pipelines.runtime import Graph

_LIMIT = "maxmessagespertrigger"


def history_of(
    log: CheckpointLog, history: History | None, graph: Graph, options: Mapping[str, str], *, is_new: bool, real_time: bool
) -> str | None:
    """The document of the history that an application reads first; None if it has none.

    Raises:
        OptionError: The history does not fit the application, or the mode.
        CheckpointError: The checkpoint has begun without it, or with another one.
        HistoryError: A file cannot be read, or lacks a field of its messages.
    """
    noted = log.history()
    if history is None and noted is None:
        return None
    if real_time:
        raise OptionError(
            "real_time: micro-batches of a history are read by tasks, and live messages that it has are dropped by tasks: start "
            "the application without real_time"
        )
    if graph.bootstraps:
        raise OptionError(
            f"history: table {graph.bootstraps[0].table} has bootstrap=True, which reads its streams before others, and a "
            "history is read before all streams: begin without the history, or without bootstrap"
        )
    if noted is None:
        assert history is not None
        if not is_new:
            raise CheckpointError(
                "the checkpoint has begun without this history: its messages would come after later ones; use a new checkpoint"
            )
        noted = log.note_history(build(history, graph.streams, _slice(options)).to_json())
    if history is not None and noted["request"] != json.loads(json.dumps(request_of(history))):
        raise CheckpointError(
            f"the checkpoint began with the history {noted['asked']}; give the same paths, columns and end, or none"
        )
    return json.dumps(noted, separators=(",", ":"))


def _slice(options: Mapping[str, str]) -> int:
    """How many messages a slice has: as many as usual, or as a micro-batch may have."""
    limits = [value for name, value in options.items() if name.lower() == _LIMIT]
    return min([SLICE_MESSAGES, *(int(value) for value in limits if value.isdecimal() and int(value))])
