"""An asyncio connection to a broker, with one channel."""

import asyncio
import contextlib
import functools
import logging
import math
import socket
import ssl
from collections.abc import Callable, Iterator
from importlib.metadata import version
from typing import Any, TypeVar
from urllib.parse import unquote, urlsplit

import pika
from pika.adapters.asyncio_connection import AsyncioConnection
from pika.channel import Channel
from pika.exceptions import AMQPError, ChannelClosed
from pika.frame import Method

from headrace.connectors.rabbitmq._errors import Denied, RabbitMQError, Unavailable, Untrusted, explain
from headrace.connectors.rabbitmq._parameters import RabbitMQConnection
from headrace.connectors.rabbitmq.deliveries import Deliveries
from headrace.connectors.rabbitmq.wire import Services, Wire

# Pika logs errors several times and with tracebacks; here, they are raised, or logged in one line.
logging.getLogger("pika").setLevel(logging.CRITICAL)

T = TypeVar("T")
_CLOSE_S = 2.0
_PORT, _TLS_PORT = 5672, 5671
_GUEST = "guest"


class Link:
    """A connection with its channel. They are lost together: after losing the channel, create a new link."""

    def __init__(self, broker: str, deliveries: Deliveries | None, arrived: Callable[[], None]) -> None:
        """Creates a link that is not open yet."""
        self.broker = broker
        """The address of the broker, for errors."""
        loop = asyncio.get_running_loop()
        self.lost: asyncio.Future[RabbitMQError] = loop.create_future()
        """Done once the connection or its channel is lost, with the reason as its result."""
        self.connection: AsyncioConnection
        self.channel: Channel
        self._wire: Wire | None = None
        self._deliveries = deliveries
        self._arrived = arrived
        self._closed = asyncio.Event()

    @classmethod
    async def open(
        cls,
        parameters: RabbitMQConnection,
        name: str,
        deliveries: Deliveries | None = None,
        arrived: Callable[[], None] = lambda: None,
    ) -> "Link":
        """Connects to the first node that accepts the connection.

        Args:
            parameters: The addresses and the credentials.
            name: The connection name that operators of the broker see.
            deliveries: Receives the deliveries, if the channel will have a consumer.
            arrived: Called when deliveries have arrived.

        Raises:
            RabbitMQError: No node accepts it. The error comes from a node that rejects it, or else from the last node.
        """
        try:
            link = await cls._open_first(parameters, name, deliveries, arrived)
        except Untrusted as error:
            if parameters.was_reached():
                # Certificates and authorities are never replaced on both sides at the same moment.
                raise Unavailable(str(error)) from error
            raise
        parameters.note_reached()
        return link

    @classmethod
    async def _open_first(
        cls, parameters: RabbitMQConnection, name: str, deliveries: Deliveries | None, arrived: Callable[[], None]
    ) -> "Link":
        """As `open`, which distinguishes first connections from later ones."""
        failed: RabbitMQError | None = None
        for address in _addresses(parameters, name):
            link = cls(f"RabbitMQ at {address.host}:{address.port}", deliveries, arrived)
            try:
                await link._open(address)
                return link
            except RabbitMQError as error:
                failed = failed if isinstance(failed, Denied) else error
        assert failed is not None
        raise failed

    async def ask(self, request: Callable[..., object], *arguments: object, **options: object) -> Any:
        """Makes a request on the channel; returns the answer.

        Raises:
            RabbitMQError: The broker closes the channel instead, or the connection is lost.
        """
        if self.lost.done():
            raise self.lost.result()
        answer: asyncio.Future[Method[Any]] = asyncio.get_running_loop().create_future()
        request(*arguments, **options, callback=functools.partial(_set, answer))
        return (await self._unless_lost(answer)).method

    async def refusal(self, request: Callable[[Channel, Callable[..., None]], object]) -> ChannelClosed | None:
        """Makes a request on a channel of its own; returns the reason for which the broker closes it, None if it answers.

        Raises:
            RabbitMQError: The connection is lost.
        """
        loop = asyncio.get_running_loop()
        opened: asyncio.Future[Channel] = loop.create_future()
        answer: asyncio.Future[BaseException | None] = loop.create_future()
        if self.lost.done():
            raise self.lost.result()
        channel = self.connection.channel(on_open_callback=functools.partial(_set, opened))
        await self._unless_lost(opened)
        channel.add_on_close_callback(lambda _, error: _set(answer, error))
        request(channel, lambda _: _set(answer, None))
        error = await self._unless_lost(answer)
        if error is None:
            channel.close()
            return None
        if not isinstance(error, ChannelClosed):
            raise explain(error, self.broker)
        return error

    @property
    def frame_max(self) -> int:
        """The largest frame that the broker accepts, in bytes; 0 for no limit."""
        return int(self.connection.params.frame_max)

    @property
    def wire(self) -> Wire:
        """The transport of the connection."""
        assert self._wire is not None
        return self._wire

    def lose(self, error: BaseException) -> None:
        """Discards the link."""
        if not self.lost.done():
            self.lost.set_result(explain(error, self.broker))

    async def close(self) -> None:
        """Closes the connection, gracefully if the broker answers in time."""
        self.lose(Unavailable(f"{self.broker}: the connection was closed"))
        with contextlib.suppress(AMQPError):
            self.connection.close()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_CLOSE_S):
                await self._closed.wait()
        if not self._closed.is_set() and self._wire is not None:
            self._wire.abort()

    async def _open(self, address: pika.ConnectionParameters) -> None:
        """Connects, and opens the channel."""
        loop = asyncio.get_running_loop()
        services = Services(lambda: Wire(self._deliveries, self._arrived, address.heartbeat / 2))
        connected: asyncio.Future[AsyncioConnection] = loop.create_future()
        opened: asyncio.Future[Channel] = loop.create_future()
        self.connection = AsyncioConnection(
            address,
            on_open_callback=functools.partial(_set, connected),
            on_open_error_callback=lambda _, error: self._on_end(error),
            on_close_callback=lambda _, error: self._on_end(error),
            custom_ioloop=services,
        )
        try:
            await self._unless_lost(connected)
            self._wire = services.wire
            self.channel = self.connection.channel(on_open_callback=functools.partial(_set, opened))
            self.channel.add_on_close_callback(lambda _, error: self.lose(error))
            await self._unless_lost(opened)
        except BaseException:
            await self.close()
            raise

    def _on_end(self, error: BaseException) -> None:
        """Handles the end of the connection, or a failure to connect."""
        self._closed.set()
        self.lose(error)

    async def _unless_lost(self, answer: "asyncio.Future[Any]") -> Any:
        """Waits for a result.

        Raises:
            RabbitMQError: The connection is lost first.
        """
        await asyncio.wait({answer, self.lost}, return_when=asyncio.FIRST_COMPLETED)
        if not answer.done():
            raise self.lost.result()
        return answer.result()


def _set(answer: "asyncio.Future[T]", result: T) -> None:
    """Sets a result, unless nothing waits for it."""
    if not answer.done():
        answer.set_result(result)


def _addresses(parameters: RabbitMQConnection, name: str) -> Iterator[pika.ConnectionParameters]:
    """Yields the nodes of a cluster, as parameters of pika.

    Raises:
        Untrusted: A TLS file cannot be used.
    """
    url = urlsplit(parameters.url.get_secret_value())
    password = parameters.password.get_secret_value() if parameters.password is not None else unquote(url.password or _GUEST)
    tls = _tls(parameters) if url.scheme == "amqps" else None
    for node in (url, *(urlsplit(f"//{node}") for node in parameters.nodes)):
        yield pika.ConnectionParameters(
            host=node.hostname,
            port=node.port or url.port or (_TLS_PORT if tls is not None else _PORT),
            virtual_host=unquote(url.path[1:]) or "/",
            credentials=pika.PlainCredentials(unquote(url.username or _GUEST), password),
            ssl_options=None if tls is None else pika.SSLOptions(tls, node.hostname),
            heartbeat=math.ceil(parameters.heartbeat_seconds),
            socket_timeout=parameters.connect_seconds,
            stack_timeout=parameters.connect_seconds,
            client_properties={"product": "Headrace", "version": version("headrace-connectors"), "connection_name": name},
            tcp_options=_tcp_options(parameters),
        )


def _tcp_options(parameters: RabbitMQConnection) -> dict[str, int]:
    """Detects a peer that is gone even while nothing is read from it, if the system supports that."""
    return {"TCP_USER_TIMEOUT": math.ceil(2000 * parameters.heartbeat_seconds)} if hasattr(socket, "TCP_USER_TIMEOUT") else {}


def _tls(parameters: RabbitMQConnection) -> ssl.SSLContext:
    """Returns the TLS context: certificates to trust, and the client certificate."""
    try:
        context = ssl.create_default_context(cafile=parameters.tls_ca)
        if parameters.tls_certificate is not None:
            context.load_cert_chain(parameters.tls_certificate, parameters.tls_key)
    except (OSError, ssl.SSLError) as error:
        files = ", ".join(str(file) for file in (parameters.tls_ca, parameters.tls_certificate, parameters.tls_key) if file)
        raise Untrusted(f"{files}: cannot be read as PEM: {error}") from error
    return context
