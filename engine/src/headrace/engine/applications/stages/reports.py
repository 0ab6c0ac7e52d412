"""What the tasks of a micro-batch report to the driver: the states that they have stored, and what they have delivered."""

import pickle
import struct
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from headrace.engine.applications.stages.plan import REPORT, BlockRow
from headrace.engine.checkpoint.lake_batches import LakeBatch
from headrace.engine.checkpoint.manifests import Bucket, Entry
from headrace.engine.sink.writer import Written
from headrace.pipelines.runtime import StepMeasures, summed

_LENGTH = struct.Struct("!i")


@dataclass(frozen=True)
class Report:
    """The report of one stage of one task.

    Attributes:
        states: The buckets that it has changed.
        written: The parts that it has delivered, by sink.
        lakes: The files that it has written to tables.
        batch: The micro-batch, if it was processed before it was planned; else None, since its tasks know it.
        measures: The measures of the steps.
        keys: The number of keys with a state, by step, of buckets that it has processed.
        sizes: The size of the states of buckets that it has changed, in bytes, as they are stored.
    """

    states: Mapping[Bucket, Entry] = field(default_factory=dict)
    written: Mapping[str, Written] = field(default_factory=dict)
    lakes: tuple[LakeBatch, ...] = ()
    batch: int | None = None
    measures: Mapping[str, StepMeasures] = field(default_factory=dict)
    keys: Mapping[Bucket, Mapping[str, int]] = field(default_factory=dict)
    sizes: Mapping[Bucket, int] = field(default_factory=dict)

    def row(self, bucket: int) -> BlockRow:
        """The report as a row, which passes through a bucket to the query's sink."""
        return BlockRow(bucket, REPORT, "", 0, 0, pickle.dumps(self, 5))


def report_of(row: BlockRow) -> Report:
    """The report in a row."""
    report: Report = pickle.loads(row.packed)
    return report


def merged(reports: Iterable[Report]) -> Report:
    """Reports of stages of a micro-batch as one, without what they have delivered."""
    found = list(reports)
    return Report(
        {bucket: entry for report in found for bucket, entry in report.states.items()},
        measures=summed(report.measures for report in found),
        keys={bucket: keys for report in found for bucket, keys in report.keys.items()},
        sizes={bucket: size for report in found for bucket, size in report.sizes.items()},
    )


def unpack(packed: bytes) -> Iterator[Report]:
    """The reports that the query's sink has collected: each one after its length in bytes."""
    at = 0
    while at < len(packed):
        (length,) = _LENGTH.unpack_from(packed, at)
        at += _LENGTH.size
        yield pickle.loads(packed[at : at + length])
        at += length
