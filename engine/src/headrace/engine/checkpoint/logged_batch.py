"""An entry of a checkpoint's offset log."""

import json
from dataclasses import dataclass

from headrace.engine._errors import CheckpointError
from headrace.engine.checkpoint.position import Offset

_PARTITIONS = "spark.sql.shuffle.partitions"


@dataclass(frozen=True)
class LoggedBatch:
    """A micro-batch of the offset log.

    Attributes:
        batch: Its number.
        partitions: The number of shuffle partitions, which is fixed for a checkpoint.
        offsets: Where the micro-batch ends in each Headrace source.
        planned_ms: When it was planned, in milliseconds since 1970.
    """

    batch: int
    partitions: int
    offsets: tuple[Offset, ...]
    planned_ms: int = 0


def logged_batch(batch: int, text: str, checkpoint: str) -> LoggedBatch:
    """The micro-batch that an entry of an offset log describes.

    Raises:
        CheckpointError: The entry is not in Spark's format.
    """
    try:
        _, metadata, *offsets = text.splitlines()
        own = tuple(offset for offset in map(Offset.parse, offsets) if offset is not None)
        noted = json.loads(metadata)
        return LoggedBatch(batch, int(noted["conf"][_PARTITIONS]), own, int(noted.get("batchTimestampMs", 0)))
    except (ValueError, KeyError) as error:
        where = f"{checkpoint}/offsets/{batch}"
        raise CheckpointError(f"{where} is not an entry of Spark's offset log ({type(error).__name__}: {error})") from None
