"""How the NATS connectors are built and checked."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from nats.js.errors import NotFoundError

from headrace.connectors._connector import Implementation
from headrace.connectors.nats._consumer import NatsConsumerSource
from headrace.connectors.nats._core import NatsCoreSource
from headrace.connectors.nats._errors import NatsRefused
from headrace.connectors.nats._parameters import (
    JetStreamParameters,
    NatsConnection,
    NatsConsumerParameters,
    NatsCoreParameters,
    NatsParameters,
    NatsSinkParameters,
)
from headrace.connectors.nats._sink import NatsSink
from headrace.connectors.nats._source import NatsSource, check_retention
from headrace.connectors.nats.client import Client
from headrace.connectors.nats.connection import connected, jetstream, stream_info
from headrace.connectors.nats.consumer_check import check_consumer
from headrace.contract.counts import counted

P = TypeVar("P", bound=NatsConnection)


def _checking(ask: Callable[[Client, P], Coroutine[Any, Any, str]]) -> Callable[[P], str]:
    """Returns a check that opens a connection for its requests."""

    async def connect_and_ask(parameters: P) -> str:
        async with connected(parameters) as client:
            return await ask(client, parameters)

    return lambda parameters: asyncio.run(connect_and_ask(parameters))


async def _stream(client: Client, parameters: NatsParameters) -> str:
    """Reports the content of a stream that is read by sequences."""
    check_retention(await stream_info(client, parameters))
    return await _messages(client, parameters)


async def _consumer(client: Client, parameters: NatsConsumerParameters) -> str:
    """Reports how many messages a durable consumer has left."""
    stream = await _messages(client, parameters)
    manager = jetstream(client, parameters.domain)
    try:
        info = await manager.consumer_info(parameters.stream, parameters.consumer)
    except NotFoundError:
        if not parameters.create:
            raise NatsRefused(f"there is no consumer {parameters.consumer}; create it, or set create = true") from None
        return f"{stream}; consumer {parameters.consumer} will be created"
    check_consumer(info, parameters)
    return f"{stream}; consumer {parameters.consumer} has {info.num_pending} left, and {info.num_ack_pending} unacknowledged"


async def _subjects(client: Client, parameters: NatsCoreParameters) -> str:
    """Checks that the subjects may be subscribed to."""
    for subject in parameters.subjects:
        await client.subscribe(subject, queue=parameters.queue_group or "")
    await client.flush()
    client.check_allowed()
    return f"subscribed to {', '.join(parameters.subjects)} at {client.where}"


async def _target(client: Client, parameters: NatsSinkParameters) -> str:
    """Reports which stream stores the messages of the sink."""
    manager = jetstream(client, parameters.domain)
    if "{" in parameters.subject:
        await manager.account_info()
        return f"JetStream is available at {client.where}; the streams depend on the messages"
    try:
        stream = await manager.find_stream_name_by_subject(parameters.subject)
    except NotFoundError:
        raise NatsRefused(f"{client.where}: no stream stores the subject {parameters.subject}; create one") from None
    if parameters.stream not in (None, stream):
        raise NatsRefused(f"{client.where}: stream {stream} stores {parameters.subject}, and not {parameters.stream}")
    return f"stream {stream} at {client.where} stores {parameters.subject}"


async def _messages(client: Client, parameters: JetStreamParameters) -> str:
    """Describes the content of a stream."""
    state = (await stream_info(client, parameters)).state
    stored = counted(state.messages, "message")
    return f"stream {parameters.stream} at {client.where}: {stored}, {state.first_seq} to {state.last_seq}"


NATS = Implementation(NatsParameters, NatsSource, _checking(_stream))
NATS_CONSUMER = Implementation(NatsConsumerParameters, NatsConsumerSource, _checking(_consumer))
NATS_CORE = Implementation(NatsCoreParameters, NatsCoreSource, _checking(_subjects))
NATS_SINK = Implementation(NatsSinkParameters, NatsSink, _checking(_target))
