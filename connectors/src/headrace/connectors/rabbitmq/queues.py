"""A source that reads queues, of either kind: its partitions, and what it does while a queue or the broker is missing."""

from collections.abc import Iterable, Sequence
from typing import Generic, TypeVar

from headrace.connectors._connector import VERSION
from headrace.connectors.bad_records import BadRecordPolicy, PolicySource
from headrace.connectors.rabbitmq._errors import QueueMissing, Unavailable
from headrace.connectors.rabbitmq._parameters import RabbitMQParameters, RabbitMQStreamParameters
from headrace.connectors.rabbitmq.columns import Columns
from headrace.connectors.retry import Retry
from headrace.contract.names import to_name
from headrace.sdk import InvalidSource

_P = TypeVar("_P", RabbitMQParameters, RabbitMQStreamParameters)


class QueuesSource(PolicySource, Generic[_P]):
    """Reads queues; each is a partition, with its own connection."""

    version = VERSION
    idle_seconds = 0.0

    def __init__(self, parameters: _P) -> None:
        """Creates the source, without connecting.

        Raises:
            InvalidSource: Two queues would be the same stream.
        """
        self.name = parameters.source
        self._parameters: _P = parameters
        self._queues = partitions_of(parameters.source, parameters.queue)
        self._columns = Columns(parameters.key)
        self.bad_records = BadRecordPolicy.of(self.name, parameters)

    async def partitions(self) -> Sequence[str]:
        """Returns the queues."""
        return list(self._queues)

    async def _wait(self, retry: Retry, error: QueueMissing | Unavailable) -> None:
        """Waits before the next attempt to read a queue.

        Raises:
            QueueMissing: The queue does not exist, and `missing_queue` is `fail`.
        """
        if isinstance(error, QueueMissing) and self._parameters.missing_queue == "fail":
            raise QueueMissing(f"{error}; declare it, or set missing_queue to wait") from error
        await retry.wait(error)


def partitions_of(source: str, queues: Iterable[str]) -> dict[str, str]:
    """Maps the names of partitions to their queues.

    Raises:
        InvalidSource: Two queues would be the same stream.
    """
    partitions: dict[str, str] = {}
    for queue in queues:
        partition = to_name(queue)
        if partitions.setdefault(partition, queue) != queue:
            raise InvalidSource(
                f"the queues {partitions[partition]} and {queue} would both be the stream {source}/{partition}; use two sources"
            )
    return partitions
