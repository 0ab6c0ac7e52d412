"""The stages of an application in this process, without Spark: what steps cost, with the blocks between them."""

import time
from collections.abc import Sequence

from headrace.engine.applications.stages.keyed_stage import divided, process, state_classes
from headrace.engine.applications.stages.plan import BlockRow, Plan
from headrace.engine.applications.stages.source_stage import pieces, rows_of_ends, rows_of_piece
from headrace.engine.applications.states.keys import bucket_ids
from headrace.engine.codec import Columns
from headrace.engine.source.ranges import Ends
from headrace.pipelines import Pipeline
from headrace.pipelines.runtime import States


class Alone:
    """An application with one bucket, whose states are in memory.

    Args:
        pipeline: The application.
        streams: The streams that it waits for.
    """

    def __init__(self, pipeline: Pipeline, streams: Sequence[str]) -> None:
        graph = pipeline.graph
        self._plan = Plan(graph, bucket_ids(1), graph.name, "", 1 << 40)
        self._levels = range(1, graph.shuffles + 1)
        self._states = {level: {step: States() for step in state_classes(self._plan, level)} for level in self._levels}
        self._beside: dict[int, dict[str, object]] = {level: {} for level in self._levels}
        self.results = 0
        self._run(rows_of_ends(self._plan, Ends(opened=tuple(streams))))

    def send(self, frames: Sequence[Columns]) -> None:
        """Processes messages, as one micro-batch."""
        self._run([row for piece in pieces(frames) for row in rows_of_piece(self._plan, piece, None)])

    def finish(self) -> None:
        """Ends event time."""
        self._run(rows_of_ends(self._plan, Ends(all=True)))

    def _run(self, rows: list[BlockRow]) -> None:
        (bucket,) = self._plan.bucket_ids
        for level in self._levels:
            here, rows = divided(self._plan, level, rows)
            if here:
                done = process(self._plan, level, bucket, here, self._states[level], self._beside[level])
                self._beside[level] = dict(done.beside)
                rows += done.departing
        self.results += sum(row.messages for row in rows if row.target < 0 and not row.is_counter)


def rate_alone(pipeline: Pipeline, batches: Sequence[Sequence[Columns]]) -> tuple[float, int]:
    """The messages per second of processor time of an application alone, and the number of its results."""
    app = Alone(pipeline, sorted({frame.stream for batch in batches for frame in batch}))
    begun = time.process_time()
    for batch in batches:
        app.send(batch)
    app.finish()
    took = time.process_time() - begun
    return sum(frame.rows for batch in batches for frame in batch) / took, app.results
