"""The consumers of the `nats` source, which the server forgets: they acknowledge nothing, and have no name that anybody knows."""

import contextlib
from collections.abc import Sequence
from datetime import datetime
from secrets import token_hex

import nats.errors
from nats.js.api import AckPolicy, ConsumerConfig, DeliverPolicy, StreamConfig

from headrace.connectors.nats._errors import NatsAway
from headrace.connectors.nats._parameters import NatsParameters
from headrace.connectors.nats.client import Client
from headrace.connectors.nats.connection import api, jetstream

_INACTIVE_S = 60.0


def consumer_of(subjects: Sequence[str], source: str, stream: StreamConfig, *, after: int | None = None) -> ConsumerConfig:
    """Returns the configuration of a consumer.

    Args:
        subjects: The subjects to read; empty for all.
        source: The name of the source, for operators of the server.
        stream: The stream.
        after: The sequence of the last message that is not read; None to begin with the first one.
    """
    limits = stream.consumer_limits
    inactive = (limits and limits.inactive_threshold) or _INACTIVE_S
    config = ConsumerConfig(
        name=f"headrace-{token_hex(8)}",
        description=f"Headrace source {source}",
        ack_policy=AckPolicy.NONE,
        inactive_threshold=min(inactive, _INACTIVE_S),
        num_replicas=1,
        mem_storage=True,
    )
    if after is not None:
        config = config.evolve(deliver_policy=DeliverPolicy.BY_START_SEQUENCE, opt_start_seq=after + 1)
    if len(subjects) == 1:
        return config.evolve(filter_subject=subjects[0])
    return config.evolve(filter_subjects=list(subjects) or None)


async def sequence_before(
    client: Client, parameters: NatsParameters, subjects: Sequence[str], stream: StreamConfig, time: datetime
) -> int:
    """Returns the sequence before the first message that was not stored earlier than a time; the last one if there is none.

    A consumer that begins at the time has its place before that message, although nothing is delivered.
    """
    config = consumer_of(subjects, parameters.source, stream)
    config = config.evolve(deliver_policy=DeliverPolicy.BY_START_TIME, opt_start_time=time)
    consumer = await jetstream(client, parameters.domain).add_consumer(parameters.stream, config)
    await discard(client, parameters, consumer.name)
    if consumer.delivered is None:
        raise NatsAway(f"{client.where} does not tell where {time.isoformat()} is in stream {parameters.stream}")
    return consumer.delivered.stream_seq


async def discard(client: Client, parameters: NatsParameters, consumer: str) -> None:
    """Deletes a consumer. The answer does not matter: the server would also delete it itself, but later."""
    with contextlib.suppress(nats.errors.Error):
        await client.publish(f"{api(parameters.domain)}.CONSUMER.DELETE.{parameters.stream}.{consumer}")
