"""Channels to the gateway, one for each process and target, and the errors for its gRPC status codes."""

import os
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import grpc

from headrace.contract.addresses import keepalive_options
from headrace.contract.proxies import channel_options, through
from headrace.contract.redial import Redial
from headrace.contract.token_files import TokenFile
from headrace.engine._errors import (
    GatewayAway,
    GatewayError,
    MessagesLost,
    NotAllowed,
    NotAttached,
    OptionError,
    TakenOver,
)
from headrace.engine.wire.gateway_options import GatewayOptions
from headrace.protocol.v1.engine_pb2_grpc import EngineServiceStub

_CHANNEL_OPTIONS = [
    ("grpc.max_receive_message_length", -1),
    ("grpc.max_send_message_length", -1),
    *keepalive_options(10_000, 5_000),
    ("grpc.http2.max_pings_without_data", 0),
    ("grpc.initial_reconnect_backoff_ms", 50),
    ("grpc.min_reconnect_backoff_ms", 1_000),
    # Reconnect at least four times a second: a refused connection costs little, a waiting query more.
    ("grpc.max_reconnect_backoff_ms", 250),
    # Every query must find a restarted gateway at once: channels share no connection state.
    ("grpc.use_local_subchannel_pool", 1),
]

_channels: dict[tuple[int, "Connection"], Redial[grpc.Channel]] = {}
_channels_lock = threading.Lock()


@dataclass(frozen=True)
class Connection:
    """How to reach a gateway. It contains the content of the TLS files, so that executors need no copies of them."""

    target: str
    token: str | None = field(default=None, repr=False)
    ca: bytes | None = field(default=None, repr=False)
    cert: bytes | None = field(default=None, repr=False)
    key: bytes | None = field(default=None, repr=False)
    token_file: TokenFile | None = None

    @classmethod
    def of(cls, options: GatewayOptions) -> "Connection":
        """The connection that the options describe.

        Raises:
            OptionError: A TLS file cannot be read.
        """
        try:
            ca, cert, key = (p.read_bytes() if p else None for p in (options.tls_ca, options.tls_cert, options.tls_key))
        except OSError as error:
            raise OptionError(f"a TLS file cannot be read: {error}; check tlsCa, tlsCert and tlsKey") from None
        return cls(options.gateway, options.token, ca, cert, key, options.token_file)

    @property
    def metadata(self) -> tuple[tuple[str, str], ...]:
        """The metadata of the next call. If the token has a file, it is read again."""
        token = self.token if self.token_file is None else self.token_file.token()
        return (("authorization", f"Bearer {token}"),) if token else ()

    def stub(self) -> EngineServiceStub:
        """A stub of the gateway's engine service, on this process's channel to it."""
        return EngineServiceStub(self.channel())

    def channel(self) -> grpc.Channel:
        """This process's channel to the gateway."""
        return self._channel.current()

    def failed(self) -> None:
        """Notes that a call did not reach the gateway: the next one may get another channel. Calls in progress keep theirs."""
        self._channel.failed()

    @property
    def _channel(self) -> Redial[grpc.Channel]:
        key = (os.getpid(), self)
        with _channels_lock:
            channel = _channels.get(key)
            if channel is None:
                channel = _channels[key] = Redial(self._dial)
        return channel

    def _dial(self) -> grpc.Channel:
        options = [*_CHANNEL_OPTIONS, *channel_options(self.target)]
        if self.ca is None and self.cert is None:
            return grpc.insecure_channel(self.target, options)
        credentials = grpc.ssl_channel_credentials(self.ca, self.key, self.cert)
        return grpc.secure_channel(self.target, credentials, options)


def to_error(error: grpc.RpcError, connection: Connection) -> GatewayError:
    """The error for a failed call."""
    code = error.code() if isinstance(error, grpc.Call) else grpc.StatusCode.UNKNOWN
    details = (error.details() if isinstance(error, grpc.Call) else None) or code.name
    where = f"the gateway at {connection.target}"
    file = connection.token_file
    if code is grpc.StatusCode.UNAUTHENTICATED and file is not None and file.outlives_refusal():
        return GatewayAway(f"{where} no longer takes the token that was replaced in {file.path} ({details})")
    if _is_away(code, details):
        connection.failed()
        return GatewayAway(f"{where} is unavailable{through(connection.target)} ({code.name}: {details})")
    kind, text = _MEANING.get(code, (GatewayError, "failed"))
    return kind(f"{where} {text}: {details}")


def has_reason(error: grpc.RpcError, reason: str) -> bool:
    """Whether a call failed for a reason that the gateway names: `superseded` if its run is not the current one."""
    metadata: Any = error.trailing_metadata() if isinstance(error, grpc.Call) else None
    return any(key == "headrace-reason" and value == reason for key, value in metadata or ())


def _is_away(code: grpc.StatusCode, details: str) -> bool:
    broken = code is grpc.StatusCode.INTERNAL and "RST_STREAM" in details
    return broken or code in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED)


_MEANING: dict[grpc.StatusCode, tuple[Callable[[str], GatewayError], str]] = {
    grpc.StatusCode.UNAUTHENTICATED: (
        NotAllowed,
        "rejected this query's token; set the option token, tokenFile or HEADRACE_TOKEN",
    ),
    grpc.StatusCode.PERMISSION_DENIED: (NotAllowed, "does not permit this query"),
    grpc.StatusCode.ABORTED: (TakenOver, "now serves another run of this pipeline"),
    grpc.StatusCode.NOT_FOUND: (NotAttached, "does not know this pipeline"),
    grpc.StatusCode.DATA_LOSS: (MessagesLost, "no longer has what this query must read"),
    grpc.StatusCode.UNIMPLEMENTED: (GatewayError, "does not have this method; is it a Headrace gateway of an older version?"),
}
