"""The plan of an application on Spark, and the rows between its stages."""

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
        StructField("first", LongType(), False),
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
        pa.field("first", pa.int64(), nullable=False),
    ]
)


LAST = 2**63 - 1
"""The sequence of rows that follow all messages of their stream."""
FORGOTTEN = END - 1
"""The peak of a row for a stream that is forgotten, after it has ended."""
OPENED = END - 2
"""The peak of a row for a stream that is opened: windows and timers wait for it from this micro-batch on."""
BEGUN = END - 3
"""The peak of a row for a source that no longer waits for further streams; its name is in the place of the stream."""
CLOCK = END - 4
"""The peak of a row with the time for which the application has run, which is in the place of the stream."""
PLANNED = END - 5
"""The peak of a row with the time at which the micro-batch was planned, which is in the place of the stream."""


COUNTS = {what: -(2**30) - number for number, what in enumerate(Counted)}
"""The targets of rows that only count elements: `stream` is the step, and `messages` the number."""
REPORT = -(2**31)
"""The target of rows with what a task reports to the driver; `ApplicationSink` collects their blocks."""
_FIRST_COUNT = max(COUNTS.values())


@dataclass(frozen=True, slots=True)
class BlockRow:
    """One row between two stages.

    Attributes:
        bucket: The bucket that it is shuffled to.
        target: The number of the `key_by` whose elements it contains; negative for a sink, -1 for the first one.
        stream: The stream that the elements come from.
        sequence: The sequence of the first element.
        messages: The number of elements, for metrics.
        block: The elements, packed; empty if the row only has a peak. For a sink, an Arrow record batch,
            packed if the row comes from another process.
        peak: The largest event time of the piece of the stream that the row comes from; NO_TIME if no step needs times; END if
            the stream has ended, FORGOTTEN if the checkpoint omits it from now on, OPENED if it is waited for from now on,
            BEGUN if it is a source that waits for no further streams, CLOCK if it tells how long the application has run,
            PLANNED if it tells when the micro-batch was planned.
        branch: The bucket and the branch of the pipeline that it comes from. It orders rows that begin with the same message.
        first: The first event time of the piece that the row comes from, whose marks do not yet include earlier pieces' marks;
            NO_TIME if there is none, and END if the marks of the row are final.
    """

    bucket: int
    target: int
    stream: str
    sequence: int
    messages: int
    block: bytes | pa.RecordBatch
    peak: int = NO_TIME
    branch: int = 0
    first: int = END

    @property
    def is_mark(self) -> bool:
        """Whether it only has a peak."""
        return isinstance(self.block, bytes) and not self.block

    @property
    def size(self) -> int:
        """The size of the block, in bytes."""
        return len(self.block) if isinstance(self.block, bytes) else self.block.nbytes

    @property
    def packed(self) -> bytes:
        """The block as bytes, for another process."""
        if isinstance(self.block, bytes):
            return self.block
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, self.block.schema) as writer:
            writer.write_batch(self.block)
        data: bytes = sink.getvalue().to_pybytes()
        return data

    @property
    def batch(self) -> pa.RecordBatch:
        """The block of a row for a sink."""
        if isinstance(self.block, bytes):
            return pa.ipc.open_stream(pa.py_buffer(self.block)).read_next_batch()
        return self.block

    @property
    def is_counter(self) -> bool:
        """Whether it is for the driver: it counts elements, or reports what a task has done."""
        return self.target <= _FIRST_COUNT

    @property
    def is_end(self) -> bool:
        """Whether its stream has ended."""
        return self.peak == END

    @property
    def is_forgotten(self) -> bool:
        """Whether its stream is forgotten."""
        return self.is_mark and (self.sequence, self.peak) == (LAST, FORGOTTEN)

    @property
    def is_opened(self) -> bool:
        """Whether its stream is opened."""
        return self.is_mark and (self.sequence, self.peak) == (LAST, OPENED)

    @property
    def is_begun(self) -> bool:
        """Whether it names a source that waits for no further streams."""
        return self.is_mark and (self.sequence, self.peak) == (LAST, BEGUN)

    @property
    def is_clock(self) -> bool:
        """Whether it tells how long the application has run."""
        return self.is_mark and (self.sequence, self.peak) == (LAST, CLOCK)

    @property
    def is_planned_at(self) -> bool:
        """Whether it tells when the micro-batch was planned."""
        return self.is_mark and (self.sequence, self.peak) == (LAST, PLANNED)

    @property
    def is_told(self) -> bool:
        """Whether it has no elements and no event time of a stream, but tells something about the streams or the clock."""
        return self.is_mark and self.sequence == LAST and (self.is_end or PLANNED <= self.peak <= FORGOTTEN)


@dataclass(frozen=True)
class Plan:
    """What all processes of one query need to know about its application.

    Attributes:
        graph: The pipeline.
        bucket_ids: The ids of the buckets that keys are divided into; fixed for a checkpoint.
        query: Identifies the query across its runs: its checkpoint.
        run: A unique id of this start of the query, so that a worker does not use cached states of an earlier one.
        worker_bytes: The approximate memory for states in a Python worker, in bytes.
        dropped: Steps whose states in the checkpoint are to be dropped.
        programs: The files of the application's programs, as `ship_programs` returns them.
        calls: The folder on the driver's machine in which processes record what they process; None to record it for Spark only.
    """

    graph: Graph
    bucket_ids: tuple[int, ...]
    query: str
    run: str
    worker_bytes: int
    dropped: frozenset[str] = frozenset()
    programs: str | None = None
    calls: str | None = None

    @property
    def buckets(self) -> int:
        """The number of buckets."""
        return len(self.bucket_ids)

    def needs_headers(self, step: int) -> bool:
        """Whether the headers of a step's results are needed after it, if only for dead letters."""
        return self.graph.headers_after[step] or self.graph.dead_letters is not None
