"""The model of the gateway's configuration file. `load.py` reads the file."""

import re
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    ValidationInfo,
    field_validator,
    model_validator,
)
from pydantic_core import PydanticCustomError

from headrace.configuration import Duration, Size
from headrace.contract import addresses
from headrace.contract.addresses import is_loopback
from headrace.contract.limits import DEFAULT_GATEWAY, DEFAULT_HTTP, MAX_CURSOR_BYTES
from headrace.contract.names import is_name_pattern, is_stream_pattern
from headrace.contract.units import format_size
from headrace.terminal import as_typed

_FRAME_OVERHEAD = 512
"""The bytes of buffer that `core` charges for a frame besides its size."""
_MAX_DURATION_S = 31 * 86_400.0
"""The protocol contains durations in milliseconds, of 32 bits."""
_DEFAULT_PORT = int(DEFAULT_GATEWAY.rpartition(":")[2])
_PAGE_URL = re.compile(r"https?://[^/?#\s@]+(/[^\s]*)?")
_OTLP_URL = re.compile(r"https?://[^/?#\s@]+/?")
_SHA256 = re.compile(r"[0-9a-f]{64}")


def _problem(message: str) -> PydanticCustomError:
    return PydanticCustomError("headrace", "{message}", {"message": message})


def _stream_pattern(value: str) -> str:
    if not is_stream_pattern(value):
        raise _problem(f"{value!r} is not a stream pattern; write source/partition, for instance orders/* or orders/0")
    return value


def _name_pattern(value: str) -> str:
    if not is_name_pattern(value):
        raise _problem(f"{value!r} is not a name or pattern: letters, digits and ._-* only")
    return value


def _pattern(value: str) -> str:
    return _stream_pattern(value) if "/" in value else _name_pattern(value)


def _file(value: Path, info: ValidationInfo) -> Path:
    """Resolves a path relative to the folder of the configuration file."""
    folder: Path = (info.context or {}).get("folder", Path())
    path = folder / value.expanduser()
    if not path.is_file():
        raise _problem(f"there is no file {str(path)!r}")
    return path


StreamPattern = Annotated[str, AfterValidator(_stream_pattern)]
NamePattern = Annotated[str, AfterValidator(_name_pattern)]
AnyPattern = Annotated[str, AfterValidator(_pattern)]
"""A stream pattern, or a name or pattern without a slash."""
ExistingFile = Annotated[Path, AfterValidator(_file)]


class _Model(BaseModel):
    """A frozen model that rejects unknown keys."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Limits(_Model):
    """The limits of the gateway. Sizes are bytes or text such as `64mb`, durations seconds or text such as `30s`."""

    buffer_bytes: Size = Field(default=128 * 2**20, ge=2**20)
    """The size of the buffer for the frames of all sessions, in bytes. Sources wait when it is full."""
    max_frame_bytes: Size = Field(default=4 * 2**20 - 2**16, ge=2**10, le=2**30)
    """The maximum size of a serialized frame. With its envelope, a frame of the default size fits in gRPC's limit of 4 MiB."""
    max_frame_messages: int = Field(default=100_000, ge=1)
    """The maximum number of messages in a frame."""
    max_sessions: int = Field(default=2_000, ge=1)
    """The maximum number of concurrent sessions."""
    max_streams_per_session: int = Field(default=1_000, ge=1)
    """The maximum number of open streams per session."""
    session_messages: int = Field(default=4_000_000, ge=1)
    """The maximum number of outstanding messages per session."""
    hello_timeout_seconds: Duration = Field(default=10.0, ge=0.001, le=_MAX_DURATION_S)
    """How long a new session may take to send Hello."""
    write_timeout_seconds: Duration = Field(default=30.0, ge=0.001, le=_MAX_DURATION_S)
    """How long a client may stop reading while messages are queued for it; a sink that reports being busy may take longer."""
    drain_timeout_seconds: Duration = Field(default=10.0, ge=0, le=_MAX_DURATION_S)
    """How long a gateway that is shutting down waits for messages in flight to be acknowledged."""
    query_lease_seconds: Duration = Field(default=60.0, ge=0.1, le=_MAX_DURATION_S)
    """How long a query may make no call before others continue without it. A running query calls several times in this period."""
    forget_after_seconds: Duration = Field(default=0.0, ge=0)
    """How long after its last call an absent query is forgotten, which releases its acknowledgements; 0 means never."""

    @field_validator("max_frame_bytes")
    @classmethod
    def _fits_in_buffer(cls, value: int, info: ValidationInfo) -> int:
        # A quarter of the buffer is reserved for minimum windows, so a frame must fit in the rest.
        buffer = info.data.get("buffer_bytes")
        if buffer is not None and value + _FRAME_OVERHEAD > buffer * 3 // 4:
            raise _problem(f"{format_size(value)} is more than three quarters of limits.buffer_bytes = {format_size(buffer)}")
        return value

    @property
    def max_cursor_bytes(self) -> int:
        """The maximum size of a cursor: a frame has room for one beside a message."""
        return min(MAX_CURSOR_BYTES, self.max_frame_bytes // 2)


class StreamRule(_Model):
    """Streams that are acknowledged only after all of these pipelines have committed."""

    pattern: StreamPattern
    pipelines: tuple[NamePattern, ...] = Field(min_length=1)

    @field_validator("pipelines")
    @classmethod
    def _plain_names(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        if any("*" in name for name in value):
            raise _problem("name each pipeline in full: a pattern cannot say which pipelines to wait for")
        return value


class Paused(_Model):
    """The parts that are paused whenever the gateway runs. Names, or patterns such as `orders/*`."""

    streams: tuple[StreamPattern, ...] = ()
    connectors: tuple[NamePattern, ...] = ()
    """Instances of sources."""
    pipelines: tuple[NamePattern, ...] = ()
    sinks: tuple[NamePattern, ...] = ()


class Peek(_Model):
    """The part of messages that people whose token has the right `peek` may see."""

    enabled: bool = False
    """Whether anything is shown."""
    messages_per_second: int = Field(default=10, ge=1, le=100)
    """The maximum number of messages that each listener is shown in a second."""
    bytes_per_second: Size = Field(default=64 * 2**10, ge=2**10, le=2**20)
    """The maximum number of bytes of messages that each listener is shown in a second."""
    preview_bytes: Size = Field(default=2**10, ge=1, le=2**16)
    """The maximum number of bytes of a value that are shown."""
    max_listeners: int = Field(default=8, ge=1, le=64)
    """The maximum number of listeners at a time."""


class Tls(_Model):
    """PEM files. With `client_ca`, clients must present a certificate signed by it; their rights still depend on tokens."""

    cert: ExistingFile
    key: ExistingFile
    client_ca: ExistingFile | None = None


class Token(_Model):
    """One token and its rights. Set `sha256`, or `token` as a reference to an environment variable."""

    name: str = Field(min_length=1)
    sha256: tuple[str, ...] = Field(default=(), repr=False)
    """The token's SHA-256 in hex; `headrace gateway token` prints one. A list allows both an old and a new token."""
    sources: tuple[StreamPattern, ...] = ()
    """Streams that it may send."""
    sinks: tuple[NamePattern, ...] = ()
    """Sinks that it may attach as."""
    pipelines: tuple[NamePattern, ...] = ()
    """Pipelines that it may run."""
    reads: tuple[StreamPattern, ...] = ()
    """Streams that its pipelines may read."""
    writes: tuple[NamePattern, ...] = ()
    """Sinks that its pipelines may write to."""
    admin: bool = False
    """Whether it may read the status."""
    control: bool = False
    """Whether it may change what the gateway does: pause, resume, forget, drain, reload and restart."""
    peek: tuple[AnyPattern, ...] = ()
    """Streams of which it may see messages, and sinks of which it may see dead letters, if `[peek]` enables that."""
    supervise: tuple[NamePattern, ...] = ()
    """Deployments that it may register, to restart their connectors; true for all."""

    @field_validator("supervise", mode="before")
    @classmethod
    def _all_or_some(cls, value: object) -> object:
        return ("*",) if value is True else () if value is False else value

    @field_validator("sha256", mode="before")
    @classmethod
    def _one_or_several(cls, value: object) -> object:
        return (value,) if isinstance(value, str) else value

    @field_validator("sha256")
    @classmethod
    def _hex(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        if not all(_SHA256.fullmatch(digest.lower()) for digest in value):
            raise _problem(as_typed("must be 64 hexadecimal digits; headrace gateway token prints a new one"))
        return tuple(digest.lower() for digest in value)

    @model_validator(mode="after")
    def _complete(self) -> Self:
        if not self.sha256:
            raise _problem(as_typed('needs sha256 = "..." or token = "${VARIABLE}"; headrace gateway token prints a new one'))
        return self


class Log(_Model):
    """How the gateway logs, to standard error."""

    format: Literal["auto", "json", "console"] = "auto"
    """`auto` is console on a terminal and JSON elsewhere."""
    level: Literal["debug", "info", "warning", "error"] = "info"


class Http(_Model):
    """The HTTP server, for probes, metrics and scripts."""

    listen: str = "auto"
    """The address to listen on, `host:port`; `off` for none. `auto` is the default port of this machine, if the gateway itself
    listens on its default port, and otherwise `off`: a second gateway on a machine must not need a second setting."""

    stream_metrics: bool = False
    """Whether `/metrics` has series for each stream."""
    stuck_after_seconds: Duration = Field(default=900.0, ge=0.001)
    """After how long without a commit health reports a micro-batch as stuck. Queries whose batches take longer need more."""

    slow_after_seconds: Duration = Field(default=5.0, ge=0.001)
    """After how long without an answer health reports a sink, or the storage of a checkpoint, as slow."""

    prometheus_url: str = ""
    """The page of the Prometheus or Grafana that has the gateway's metrics, to which the console leads."""
    spark_url: str = ""
    """The page of Spark, or of its history server, to which the console leads."""

    @field_validator("prometheus_url", "spark_url")
    @classmethod
    def _page(cls, value: str) -> str:
        if value and not _PAGE_URL.fullmatch(value):
            raise _problem(f"{value!r} is not the address of a page; write for instance http://prometheus.example:9090")
        return value

    @field_validator("listen")
    @classmethod
    def _address(cls, value: str) -> str:
        if value not in ("auto", "off"):
            split_address(value)
        return value


class Telemetry(_Model):
    """The export to a collector of OpenTelemetry, by OTLP over gRPC."""

    otlp_endpoint: str = ""
    """The URL of the collector, such as `http://127.0.0.1:4317`; `https` uses TLS. Without it, the URL in the standard variables
    `OTEL_EXPORTER_OTLP_*`, which also set everything else; nothing is exported if they name none either."""

    @field_validator("otlp_endpoint")
    @classmethod
    def _url(cls, value: str) -> str:
        if value and not _OTLP_URL.fullmatch(value):
            raise _problem(f"{value!r} is not the URL of a collector; write for instance http://127.0.0.1:4317")
        return value


class Config(_Model):
    """The configuration of a gateway."""

    limits: Limits = Limits()
    streams: tuple[StreamRule, ...] = ()
    paused: Paused = Paused()
    peek: Peek = Peek()
    tls: Tls | None = None
    tokens: tuple[Token, ...] = ()
    log: Log = Log()
    insecure: bool = False
    """Whether to allow listening without TLS on an address that other machines can reach."""
    listen: str = Field(default=DEFAULT_GATEWAY, validate_default=True)
    """The address to listen on, `host:port`; port 0 picks a free port."""
    http: Http = Http()
    telemetry: Telemetry = Telemetry()

    @field_validator("tokens")
    @classmethod
    def _distinct(cls, value: tuple[Token, ...]) -> tuple[Token, ...]:
        names = [token.name for token in value]
        digests = [digest for token in value for digest in token.sha256]
        for field, found in (("name", names), ("sha256", digests)):
            if len(set(found)) < len(found):
                raise _problem(f"two tokens have the same {field}")
        return value

    @field_validator("listen")
    @classmethod
    def _safe(cls, value: str, info: ValidationInfo) -> str:
        host, _ = split_address(value)
        in_clear = "tls" in info.data and info.data["tls"] is None
        if in_clear and not info.data.get("insecure") and not is_loopback(host):
            what = "tokens and messages" if info.data.get("tokens") else "messages"
            raise _problem(
                f"{value} can be reached from other machines, and without TLS {what} travel in the clear; "
                "set tls.cert and tls.key, or listen on 127.0.0.1, or permit it with insecure = true (--insecure)"
            )
        return value

    @field_validator("http")
    @classmethod
    def _safe_http(cls, value: Http, info: ValidationInfo) -> Http:
        if value.listen in ("auto", "off") or info.data.get("insecure") or is_loopback(split_address(value.listen)[0]):
            return value
        if "tls" in info.data and info.data["tls"] is None:
            raise _problem(
                f"{value.listen} can be reached from other machines, and without TLS tokens and names travel in the clear; "
                "set tls.cert and tls.key, or set http.listen to an address of 127.0.0.1, or permit it with insecure = true "
                "(--insecure)"
            )
        if info.data.get("tokens") == () and info.data["tls"].client_ca is None:
            raise _problem(
                f"{value.listen} can be reached from other machines, and without tokens anyone may read the status; "
                "configure tokens or tls.client_ca, or set http.listen to an address of 127.0.0.1, or permit it with "
                "insecure = true (--insecure)"
            )
        return value

    def http_address(self) -> str | None:
        """Returns the address that the HTTP server listens on; None if there is none."""
        if self.http.listen == "auto":
            return DEFAULT_HTTP if split_address(self.listen)[1] == _DEFAULT_PORT else None
        return None if self.http.listen == "off" else self.http.listen


def split_address(address: str) -> tuple[str, int]:
    """Splits `host:port` or `[v6]:port`.

    Raises:
        PydanticCustomError: the address has neither form.
    """
    try:
        return addresses.split_address(address)
    except ValueError as error:
        raise _problem(str(error)) from None
