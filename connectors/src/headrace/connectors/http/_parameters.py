"""The parameters of the HTTP connectors."""

import re
from pathlib import Path
from typing import Annotated, Literal, Self
from urllib.parse import urlsplit

from pydantic import Field, SecretStr, StringConstraints, field_validator, model_validator

from headrace.configuration import Duration, Size
from headrace.connectors._parameters import Parameters
from headrace.connectors.bad_records import BadRecordParameters, BadRecords
from headrace.connectors.listening import Listening
from headrace.contract.names import is_name

_TOKEN = r"[!#$%&'*+.^_`|~0-9A-Za-z-]+"

HeaderName = Annotated[str, StringConstraints(pattern=f"^{_TOKEN}$")]
"""The name of an HTTP header."""
NO_PROXY = "none"
"""The value of `proxy` that stands for none, whatever the environment says."""
PATH = ":path"
"""Stands for the path of a request in lists of headers."""
HeaderOrPath = Annotated[str, StringConstraints(pattern=f"^({PATH}|{_TOKEN})$")]
"""The name of an HTTP header, or `PATH`."""
UrlPath = Annotated[str, StringConstraints(pattern=r"^/[^?#\s{}]*$")]
"""The path of a URL."""


class HttpParameters(Listening, BadRecordParameters):
    """Receive webhooks: each POST is a message, answered once it is in the checkpoint of every query that reads it.

    A client that received no 2xx response must send again; with id_header, a query can drop duplicates. Put a proxy in front of
    the connector if untrusted clients can reach it.
    """

    bad_records: BadRecords = Field(
        BadRecords.SKIP,
        description="What to do with a message that cannot be sent, such as one above the gateway's max_frame_bytes."
        " The answer is 413 in any case.",
    )
    listen: str = Field("127.0.0.1:8080", description="The address to listen on, HOST:PORT.")
    source: str = Field(description="Streams are named SOURCE/<path>; the path / is SOURCE/0.", examples=["hooks"])
    paths: tuple[UrlPath, ...] = Field(
        ("/",), min_length=1, description="The URL paths that accept messages.", examples=["/orders"]
    )
    streams: Literal["by-path", "one"] = Field("by-path", description="One stream for each path, or SOURCE/0 for all paths.")
    answer: Literal["committed", "received"] = Field(
        "committed",
        description="When to answer: committed, once the message is in the checkpoint; or received, at once, and "
        "lose what is not in it if this process dies.",
    )
    body: Literal["message", "lines"] = Field("message", description="What a message is: the whole body, or each line of it.")
    id_header: HeaderName | None = Field(
        None,
        description="The header with the message id; requests without it are rejected.",
        examples=["Idempotency-Key"],
    )
    key_header: HeaderName | None = Field(None, description="The header with the message key.")
    headers: tuple[HeaderOrPath, ...] = Field((), description="Request headers that become message headers; :path is the path.")
    token: SecretStr | None = Field(None, description="The token that clients must send as `Authorization: Bearer TOKEN`.")
    health_path: UrlPath = Field("/health", description="The path for a GET: 200 if queries read all streams, or else 503.")
    max_body_bytes: Size = Field(
        1 << 20,
        ge=1,
        description="The largest body, else 413; below the gateway's max_frame_bytes.",
    )
    max_waiting_messages: int = Field(
        1000,
        ge=1,
        description="The most messages that wait for the checkpoint; further ones get 503.",
    )
    max_waiting_bytes: Size = Field(
        64 << 20, ge=1, description="The most bytes that wait for the checkpoint; further ones get 503."
    )
    max_connections: int = Field(
        2000,
        ge=1,
        description="The most connections; a further one closes the one longest without a request.",
    )
    head_seconds: Duration = Field(10.0, gt=0, description="How long a head may take; then the connection closes.")
    idle_seconds: Duration = Field(75.0, gt=0, description="How long a connection stays open after an answer.")
    answer_seconds: Duration = Field(30.0, gt=0, description="How long a request waits for the checkpoint; then it gets 503.")
    receive_seconds: Duration = Field(30.0, gt=0, description="How long a body may take; then the answer is 408.")
    retry_after_seconds: Duration = Field(1, ge=0, description="Retry-After in a 503.")

    @model_validator(mode="after")
    def _adds_up(self) -> Self:
        if self.health_path in self.paths:
            raise ValueError("health_path is one of the paths: set it to a different path")
        names: dict[str, str] = {}
        for path in self.paths:
            name = partition_name(path)
            if not is_name(name):
                raise ValueError("a path becomes the name of a stream: use letters, digits and /._- in it")
            if name in names:
                raise ValueError(f"the paths {names[name]} and {path} would be the same stream: remove one of them")
            names[name] = path
        return self

    def partition(self, path: str) -> str:
        """Returns the partition of a path."""
        return partition_name(path) if self.streams == "by-path" else "0"

    @property
    def partitions(self) -> tuple[str, ...]:
        """All partitions."""
        return tuple(dict.fromkeys(map(self.partition, self.paths)))


def partition_name(path: str) -> str:
    """Returns the name of the partition of a path."""
    return path.strip("/").replace("/", ".") or "0"


class HttpSinkParameters(Parameters):
    """Send messages to a URL, at least once, each with a header by which the receiver can detect duplicates."""

    url: str = Field(description="The URL to send requests to, http:// or https://.", examples=["https://example.org/alerts"])
    sink: str = Field(description='The name of the sink in Spark: format("headrace").option("sink", SINK).', examples=["alerts"])
    method: Literal["POST", "PUT", "PATCH"] = Field("POST", description="The HTTP method.")
    batch: Literal["message", "json-array", "ndjson"] = Field(
        "message",
        description="A request contains one value unchanged, or several JSON values, as an array or one per line.",
    )
    batch_messages: int = Field(100, ge=1, description="The most messages in a request.")
    batch_bytes: Size = Field(
        1 << 20,
        ge=1,
        description="Largest total of several messages in a request.",
    )
    content_type: str | None = Field(
        None,
        description="The content type; default: by batch.",
    )
    headers: dict[HeaderName, str] = Field({}, description="Headers to add to every request.")
    secret_headers: dict[HeaderName, SecretStr] = Field({}, description="Further headers whose values are never shown.")
    token: SecretStr | None = Field(None, description="Sent as `Authorization: Bearer TOKEN`.")
    idempotency_header: HeaderName | None = Field(
        "Idempotency-Key", description="The header for PIPELINE/BATCH/PARTITION/SEQUENCE."
    )
    key_header: HeaderName | None = Field(None, description="The header for the message key.")
    id_header: HeaderName | None = Field(None, description="The header for the message id.")
    carry_headers: tuple[HeaderName, ...] = Field((), description="Message headers that become request headers.")
    concurrency: int = Field(
        1,
        ge=1,
        le=256,
        description="The most concurrent requests. Above 1, only messages of one key stay in order.",
    )
    timeout_seconds: Duration = Field(30.0, gt=0, description="How long a request may take.")
    retry_seconds: Duration = Field(60.0, ge=0, description="How long a request is retried; then the task fails.")
    max_backoff_seconds: Duration = Field(
        10.0, gt=0, description="The longest wait between attempts, unless the receiver asks for a longer one."
    )
    tls_ca: Path | None = Field(None, description="Trusted certificates, PEM; default: the system's.")
    proxy: SecretStr | None = Field(
        None,
        description="The proxy, http[s]://[USER:PASSWORD@]HOST:PORT; or none. Default: by http_proxy, https_proxy, "
        "all_proxy and no_proxy in the environment, in either case; never for loopback addresses.",
    )

    @field_validator("url")
    @classmethod
    def _is_url(cls, url: str) -> str:
        try:
            parts = urlsplit(url)
            complete = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
        except ValueError:
            complete = False
        if not complete:
            raise ValueError("write it as http://HOST/PATH or https://HOST/PATH")
        if "@" in parts.netloc:
            raise ValueError("remove user and password, which would be shown in logs: use token or secret_headers")
        return url

    @field_validator("headers")
    @classmethod
    def _can_be_sent(cls, headers: dict[str, str]) -> dict[str, str]:
        for name, value in headers.items():
            if not is_header_value(value):
                raise ValueError(f"the value of {name} contains a control character, which is not allowed in a header")
        return headers

    @model_validator(mode="after")
    def _adds_up(self) -> Self:
        if self.batch != "message" and (self.key_header or self.id_header or self.carry_headers):
            raise ValueError("key_header, id_header and carry_headers require batch = message: a request has only one of each")
        secrets = (self.token, *self.secret_headers.values())
        if not all(is_header_value(secret.get_secret_value()) for secret in secrets if secret is not None):
            raise ValueError("a secret contains a control character, such as a line feed at its end: headers cannot contain one")
        return self


def is_header_value(text: str) -> bool:
    """Returns whether this text is a valid header value."""
    return not re.search(r"[\x00-\x08\x0a-\x1f\x7f]", text)
