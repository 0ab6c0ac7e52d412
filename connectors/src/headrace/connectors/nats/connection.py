"""Connections to NATS servers, from authentication to loss. Callers create a new one after a loss."""

import json
import re
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

import nats.errors
from nats.js import JetStreamContext
from nats.js.api import StreamInfo
from nats.js.errors import NotFoundError

from headrace.connectors.nats._errors import NatsAway, NatsRefused, explain
from headrace.connectors.nats._parameters import JetStreamParameters, NatsConnection
from headrace.connectors.nats.client import Client
from headrace.connectors.tls_files import client_context

REQUEST_S = 5.0
"""How long JetStream may take to answer, in seconds."""
_PING_S = 10
_SECONDS_AND_MICROSECONDS = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d{1,6})\d*)?Z")
_OUTBOUND_BYTES = 256 << 20


async def connect(parameters: NatsConnection) -> Client:
    """Connects and authenticates.

    Raises:
        NatsAway: No server can be reached.
        NatsRefused: A server rejects this client.
    """
    options = {**_OPTIONS, **_options(parameters)}
    client = Client(", ".join(parameters.servers), encrypted=parameters.encrypted, reached=parameters.was_reached())
    try:
        await client.connect(list(parameters.servers), error_cb=client.complained, **options)
        parameters.note_reached()
        client.reached = True
    except BaseException as error:
        await client.leave()
        if isinstance(error, Exception):
            raise _explain_login(error, client, parameters) from error
        raise
    return client


@asynccontextmanager
async def connected(parameters: NatsConnection) -> AsyncIterator[Client]:
    """Provides a connection, which is closed on exit.

    Raises:
        NatsAway: The connection cannot be established, or is lost, or the server cannot process a request of the body now.
        NatsRefused: The server rejects it permanently.
    """
    client = await connect(parameters)
    try:
        yield client
    except (nats.errors.Error, OSError, TimeoutError) as error:
        told = explain(error, client.where, denied=client.denied, reached=client.reached)
        raise client.loss if client.lost else told from error
    finally:
        await client.leave()


def jetstream(client: Client, domain: str | None) -> JetStreamContext:
    """Returns the JetStream context of a connection."""
    return client.jetstream(domain=domain, timeout=REQUEST_S)


async def stream_info(client: Client, parameters: JetStreamParameters) -> StreamInfo:
    """Returns the information about a stream.

    Raises:
        NatsRefused: The stream does not exist.
    """
    try:
        return await jetstream(client, parameters.domain).stream_info(parameters.stream)
    except NotFoundError:
        text = f"{client.where} has no stream {parameters.stream}; create it, or correct the parameter stream"
        raise NatsRefused(text) from None


async def server_time(client: Client, parameters: JetStreamParameters) -> int | None:
    """Returns the time of the server, in microseconds since 1970-01-01 UTC; None if it does not tell it (before 2.10)."""
    answer = await client.request(f"{api(parameters.domain)}.STREAM.INFO.{parameters.stream}", timeout=REQUEST_S)
    told = _SECONDS_AND_MICROSECONDS.match(json.loads(answer.data).get("ts") or "")
    if told is None:
        return None
    return int(datetime.fromisoformat(f"{told[1]}+00:00").timestamp()) * 1_000_000 + int(f"{told[2] or '':0<6}")


async def consumer_config(client: Client, parameters: JetStreamParameters, consumer: str) -> dict[str, Any]:
    """Returns the configuration of a consumer as the server sends it: nats-py drops what it does not know."""
    subject = f"{api(parameters.domain)}.CONSUMER.INFO.{parameters.stream}.{consumer}"
    answer = await client.request(subject, timeout=REQUEST_S)
    config: dict[str, Any] = json.loads(answer.data).get("config") or {}
    return config


def api(domain: str | None) -> str:
    """Returns the prefix of the subjects of JetStream requests."""
    return f"$JS.{domain}.API" if domain else "$JS.API"


_OPTIONS: dict[str, Any] = {
    # One immediate retry for each server; the caller does further retries, with backoff.
    "allow_reconnect": False,
    "max_reconnect_attempts": 1,
    "reconnect_time_wait": 0,
    "ping_interval": _PING_S,
    "pending_size": _OUTBOUND_BYTES,
    "flush_timeout": REQUEST_S,
}


def _options(parameters: NatsConnection) -> dict[str, Any]:
    """Returns the options of nats-py for this client.

    Raises:
        NatsRefused: A configured file cannot be used.
        NatsAway: The TLS files cannot be used now, and could be before.
    """
    options: dict[str, Any] = {
        "name": parameters.client_name,
        "connect_timeout": parameters.connect_seconds,
        "user": parameters.user,
        "password": parameters.password and parameters.password.get_secret_value(),
        "token": parameters.token and parameters.token.get_secret_value(),
        "tls_hostname": parameters.tls_server_name,
        "tls_handshake_first": parameters.tls_first,
    }
    if parameters.encrypted:
        options["tls"] = _tls(parameters)
    if parameters.credentials_file is not None:
        options["user_credentials"] = _readable(parameters.credentials_file)
    if parameters.nkey_file is not None:
        options["nkeys_seed"] = _readable(parameters.nkey_file)
    return options


def _explain_login(error: Exception, client: Client, parameters: NatsConnection) -> Exception:
    """Explains why connecting fails: an error that is not a network error concerns the credentials file."""
    file = parameters.credentials_file or parameters.nkey_file
    if isinstance(error, nats.errors.NoServersError):
        return client.loss
    if isinstance(error, ModuleNotFoundError):
        return NatsRefused("credentials_file and nkey_file need the module nkeys: pip install 'nats-py[nkeys]'")
    if file is not None and not isinstance(error, nats.errors.Error | OSError | TimeoutError):
        return NatsRefused(f"{file} cannot be used to authenticate: {type(error).__name__}: {error}")
    return explain(error, client.where, reached=client.reached)


def _readable(file: Path) -> str:
    """Checks that a credentials file is readable: nats-py reads it late, if at all."""
    try:
        file.open("rb").close()
    except OSError as error:
        raise NatsRefused(f"{file} cannot be used to authenticate: {error.strerror or error}") from error
    return str(file)


def _tls(parameters: NatsConnection) -> ssl.SSLContext:
    """Returns the TLS context: certificates to trust, and the client certificate."""
    try:
        return client_context(parameters.tls_ca, parameters.tls_certificate, parameters.tls_key)
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) and error.strerror else error
        untrusted = NatsAway if parameters.was_reached() else NatsRefused
        raise untrusted(f"tls_ca, tls_certificate or tls_key cannot be used: {why}") from error
