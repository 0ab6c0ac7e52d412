"""A schema registry with Confluent's API."""

import os
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, TypeVar

from headrace.pipelines._errors import FormatError, GraphError, Unavailable, text_of
from headrace.pipelines.formats.misses import Misses

if TYPE_CHECKING:
    from confluent_kafka.schema_registry import Schema, SchemaRegistryClient

R = TypeVar("R")

_CALL_TIMEOUT_S = 10
_RETRY_S = 0.5
_KEPT_S, _MAX_KEPT = 5.0, 1024
"""How long the subjects of a schema are used again, and how many such answers at most."""
_TEMPORARY = (401, 403, 408, 429)
"""Statuses that somebody may mend while the query waits: a token is renewed, a limit is raised or over."""


@dataclass(frozen=True)
class WriterSchema:
    """A schema of a registry.

    Attributes:
        id: Its id.
        type: `AVRO`, `JSON` or `PROTOBUF`.
        text: The schema.
        references: The texts of the schemas that it refers to, in an order in which each follows its own references.
    """

    id: int
    type: str
    text: str
    references: tuple[str, ...] = ()


class Registry:
    """A schema registry.

    ```python
    registry = Registry("https://registry:8081", {"basic.auth.user.info": "user:password"})
    orders = app.source("orders/*", decode=avro(kind=Order, registry=registry))
    ```

    The process that needs a schema fetches it once; for one that the registry does not know, it asks again after 0.5 s, then ever
    more rarely, at last every 5 s. While the registry is unavailable, a micro-batch that needs a schema waits; after `timeout_s`
    the query fails, whatever the step's `on_error` says: no message is dropped for an outage.

    Args:
        url: The address; of several, separated by commas, the first that answers is used.
        options: Further settings of confluent-kafka's `SchemaRegistryClient`, such as TLS and authentication.
        timeout_s: How long to wait for an answer, in seconds.
        clock: The time in seconds, which never goes back.

    Raises:
        GraphError: confluent-kafka is not installed, or refuses a setting.
    """

    def __init__(
        self,
        url: str,
        options: Mapping[str, Any] | None = None,
        *,
        timeout_s: float = 60.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.url = url
        self._options = {"max.retries": 0, "timeout": _CALL_TIMEOUT_S, **(options or {}), "url": url}
        self._timeout_s, self._clock = timeout_s, clock
        self._clients = dict[int, "SchemaRegistryClient"]()
        """By process: a client's connections do not survive a fork."""
        self._schemas = dict[tuple[int, str | None], WriterSchema]()
        self._pause = threading.Event()
        """Never set."""
        if find_spec("confluent_kafka") is None or find_spec("cachetools") is None:
            raise GraphError("a registry needs confluent-kafka: pip install 'headrace-pipelines[registry]'")
        from cachetools import TTLCache

        self._unknown = Misses[tuple[int, str | None]](clock)
        """The errors of schemas that the registry does not know yet."""
        self._subjects: TTLCache[int, str] = TTLCache(_MAX_KEPT, _KEPT_S, clock)
        self._lock = threading.Lock()
        """Of the subjects: several applications of one driver may use this object."""
        try:
            self._client()
        except Exception as error:
            raise GraphError(f"registry {url}: {text_of(error)}") from error

    def __reduce__(self) -> tuple[Any, ...]:
        """Crosses processes by its settings."""
        return _again, (self.url, self._options, self._timeout_s, self._clock)

    def schema(self, schema_id: int, form: str | None = None) -> WriterSchema:
        """Returns the schema of an id, with the schemas that it refers to.

        Args:
            schema_id: The id.
            form: How the registry shall write it; None for its usual form.

        Raises:
            FormatError: The registry does not know the id.
            Unavailable: The registry did not answer in time.
        """
        key = (schema_id, form)
        if key not in self._schemas:
            if (known := self._unknown.error(key)) is not None:
                raise FormatError(known)
            try:
                found = self._ask(f"schema {schema_id}", lambda client: client.get_schema(schema_id, fmt=form))
                self._schemas[key] = self._with_references(schema_id, found)
            except FormatError as error:
                self._unknown.add(key, str(error))
                raise
            self._unknown.remove(key)
        return self._schemas[key]

    def knows(self, schema_id: int) -> bool:
        """Whether this process has fetched a schema, in the registry's usual form."""
        return (schema_id, None) in self._schemas

    def latest(self, subject: str, form: str | None = None) -> WriterSchema:
        """Returns the latest schema of a subject.

        Raises:
            FormatError: The registry does not know the subject.
            Unavailable: The registry did not answer in time.
        """
        found = self._ask(f"subject {subject}", lambda client: client.get_latest_version(subject, form))
        return self._with_references(int(found.schema_id or 0), found.schema)

    def id_of(self, subject: str, schema: "Schema", *, register: bool) -> int:
        """Returns the id of a schema in a subject; with `register`, registers it there if it is new.

        Raises:
            FormatError: The subject does not have the schema, or refuses it as incompatible.
            Unavailable: The registry did not answer in time.
        """
        what = f"subject {subject}"
        if register:
            return int(self._ask(what, lambda client: client.register_schema(subject, schema)))
        return int(self._ask(what, lambda client: client.lookup_schema(subject, schema)).schema_id)  # type: ignore[arg-type]

    def version_of(self, subject: str, schema: "Schema") -> int:
        """Returns the version of a schema in a subject.

        Raises:
            FormatError: The subject does not have the schema.
            Unavailable: The registry did not answer in time.
        """
        return int(self._ask(f"subject {subject}", lambda client: client.lookup_schema(subject, schema)).version)  # type: ignore[arg-type]

    def subjects(self, schema_id: int) -> str:
        """Returns the subjects of a schema, for an error; empty if the registry does not tell."""
        with self._lock:
            found = self._subjects.get(schema_id)
        if found is None:
            try:
                found = ", ".join(self._client().get_subjects_by_schema_id(schema_id))
            except Exception:
                found = ""
            with self._lock:
                self._subjects[schema_id] = found
        return found

    def _with_references(self, schema_id: int, schema: "Schema") -> WriterSchema:
        references = list[str]()
        for reference in schema.references or ():
            subject, version = str(reference.subject), int(reference.version or 0)
            references += self._referenced(subject, version)
        return WriterSchema(schema_id, schema.schema_type or "AVRO", schema.schema_str or "", tuple(references))

    def _referenced(self, subject: str, version: int) -> list[str]:
        found = self._ask(f"subject {subject}, version {version}", lambda client: client.get_version(subject, version))
        whole = self._with_references(int(found.schema_id or 0), found.schema)
        return [*whole.references, whole.text]

    def _ask(self, what: str, call: "Callable[[SchemaRegistryClient], R]") -> R:
        from confluent_kafka.schema_registry.error import SchemaRegistryError

        deadline = self._clock() + self._timeout_s
        while True:
            try:
                return call(self._client())
            except SchemaRegistryError as error:
                reason, status = f"{error.http_status_code} {error.error_message}", error.http_status_code
                if 400 <= status < 500 and status not in _TEMPORARY:
                    raise FormatError(f"registry {self.url}, {what}: {reason}") from error
            except Exception as error:
                reason = f"{type(error).__name__}: {text_of(error)}"
            if self._clock() >= deadline:
                raise Unavailable(f"registry {self.url}, {what}: no answer within {self._timeout_s:g} s: {reason}")
            self._pause.wait(_RETRY_S)

    def _client(self) -> "SchemaRegistryClient":
        from confluent_kafka.schema_registry import SchemaRegistryClient

        if os.getpid() not in self._clients:
            self._clients[os.getpid()] = SchemaRegistryClient(self._options)
        return self._clients[os.getpid()]


def _again(url: str, options: Mapping[str, Any], timeout_s: float, clock: Callable[[], float]) -> Registry:
    return Registry(url, options, timeout_s=timeout_s, clock=clock)
