"""A pipeline as it runs on Spark, and the rows that go between its stages."""

from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql.types import BinaryType, IntegerType, LongType, StringType, StructField, StructType

from headrace.pipelines.runtime import END, NO_TIME, Counted, Graph

ROWS = StructType(
    [
        StructField("bucket", IntegerType(), False),
        StructField("target", IntegerType(), False),
        StructField("stream", StringType(), False),
        StructField("sequence", LongType(), False),
        StructField("peak", LongType(), False),
        StructField("messages", IntegerType(), False),
        StructField("block", BinaryType(), False),
        StructField("branch", LongType(), False),
    ]
)
ARROW_ROWS = pa.schema(
    [
        pa.field("bucket", pa.int32(), nullable=False),
        pa.field("target", pa.int32(), nullable=False),
        pa.field("stream", pa.string(), nullable=False),
        pa.field("sequence", pa.int64(), nullable=False),
        pa.field("peak", pa.int64(), nullable=False),
        pa.field("messages", pa.int32(), nullable=False),
        pa.field("block", pa.binary(), nullable=False),
        pa.field("branch", pa.int64(), nullable=False),
    ]
)


LAST = 2**63 - 1
"""The sequence of what comes after all messages of its stream."""
FORGOTTEN = END - 1
"""In the place of a peak, where the stream is forgotten that has ended before."""


COUNTS = {what: -(2**30) - number for number, what in enumerate(Counted)}
"""The targets of rows that only count what has happened to elements: `stream` is the step, and `messages` how many."""


@dataclass(frozen=True, slots=True)
class BlockRow:
    """One row between two stages.

    Attributes:
        bucket: Where it is shuffled to.
        target: The number of the `key_by` whose elements it holds; below 0 for what is written, -1 being the first sink.
        stream: The stream that the elements come from.
        sequence: The sequence of the first.
        messages: How many elements it holds, since metrics count these and not blocks.
        block: The elements; what is written, as an Arrow record batch; empty where only the peak is told.
        peak: The largest event time of the piece of the stream that the row was cut from; NO_TIME where no step asks for times;
            END where the stream has ended, FORGOTTEN where it is left out of the checkpoint.
        branch: From which bucket it comes, and which branch of the pipeline. Rows that begin with the same message go by it.
    """

    bucket: int
    target: int
    stream: str
    sequence: int
    messages: int
    block: bytes
    peak: int = NO_TIME
    branch: int = 0

    @property
    def is_mark(self) -> bool:
        """Whether it only tells how far event time has come."""
        return not self.block

    @property
    def is_end(self) -> bool:
        """Whether it tells that its stream has ended."""
        return self.peak == END

    @property
    def is_forgotten(self) -> bool:
        """Whether it tells that its stream is forgotten."""
        return self.is_mark and (self.sequence, self.peak) == (LAST, FORGOTTEN)


@dataclass(frozen=True)
class Plan:
    """What all processes of one query know.

    Attributes:
        graph: The pipeline.
        bucket_ids: The numbers of the buckets that keys are divided into; the same for the life of a checkpoint.
        query: Names the query, over all its runs: two of one application have checkpoints of their own.
        run: Names this run of the query, so that a worker does not take an older run's states for its own.
        worker_bytes: About how much memory a Python worker may use for states.
        dropped: Steps whose states in the checkpoint are to be dropped, since the pipeline no longer has them.
    """

    graph: Graph
    bucket_ids: tuple[int, ...]
    query: str
    run: str
    worker_bytes: int
    dropped: frozenset[str] = frozenset()

    @property
    def buckets(self) -> int:
        """How many buckets there are."""
        return len(self.bucket_ids)
