"""The limits of a topic, so that a message that the topic would always reject is refused before it fails a transaction."""

import time
from dataclasses import dataclass
from typing import Any

from kafka.record.default_records import DefaultRecordBatchBuilder
from kafka.record.memory_records import MemoryRecordsBuilder

from headrace.connectors.kafka._errors import KafkaAway
from headrace.connectors.kafka.cluster import Cluster
from headrace.sdk import Message

_CACHE_S = 60.0
_MISSING_CACHE_S = 1.0
_DEFAULT_MESSAGE_BYTES = 1048588


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of a topic.

    Attributes:
        message_bytes: Maximum size of a compressed batch of records, in bytes.
        needs_keys: Whether every record needs a key, because the topic is compacted.
        back_ms: Maximum age of a record, in milliseconds.
        ahead_ms: Maximum time of a record in the future, in milliseconds.
    """

    message_bytes: int
    needs_keys: bool
    back_ms: int | None
    ahead_ms: int | None

    def refusal(self, message: Message, codec: int) -> str | None:
        """Returns the reason why the topic would always reject a message; None if it accepts it."""
        key, value = message.key, message.value
        if key is None and (value is None or self.needs_keys):
            return "it has neither key nor value" if value is None else "it has no key, and the topic is compacted"
        headers = list(message.headers or ())
        if isinstance(message.event_time, int) and (why := self._why_not_at(message.event_time // 1000)) is not None:
            return why
        if DefaultRecordBatchBuilder.estimate_size_in_bytes(key, value, headers) <= self.message_bytes:
            return None
        size = _batch_bytes(key, value, headers, codec)
        return None if size <= self.message_bytes else f"it has {size} bytes, and the topic accepts {self.message_bytes}"

    def _why_not_at(self, timestamp: int) -> str | None:
        """Returns the reason why a timestamp, in milliseconds since 1970-01-01 UTC, is not allowed; None if it is."""
        if timestamp < 0:
            return "its event time is before 1970"
        now = int(time.time() * 1000)
        if self.back_ms is not None and timestamp < now - self.back_ms:
            return f"its event time is older than the topic accepts: {self.back_ms} ms"
        if self.ahead_ms is not None and timestamp > now + self.ahead_ms:
            return f"its event time is further ahead than the topic accepts: {self.ahead_ms} ms"
        return None


class TopicLimits:
    """The limits of topics, requested when they are needed, and periodically refreshed."""

    def __init__(self, cluster: Cluster) -> None:
        """Creates an empty cache."""
        self._cluster = cluster
        self._cache: dict[str, tuple[float, Limits | None]] = {}

    def of(self, topic: str) -> Limits | None:
        """Returns the limits of a topic; None if it does not exist.

        Raises:
            KafkaAway: The brokers cannot be reached.
            KafkaFailed: This client is not authorized.
        """
        known_until, limits = self._cache.get(topic, (0.0, None))
        if time.monotonic() >= known_until:
            try:
                limits = self._ask(topic)
            except KafkaAway:
                if limits is None:
                    raise
                # They hardly ever change. The writer itself notices that the brokers are unavailable, and waits for them.
            self._cache[topic] = (time.monotonic() + (_CACHE_S if limits else _MISSING_CACHE_S), limits)
        return limits

    def _ask(self, topic: str) -> Limits | None:
        """Requests the limits of a topic."""
        if not self._cluster.topics([topic]):
            return None
        settings = self._cluster.settings(topic)
        # If the broker sets the timestamps, the producer's do not count.
        stamped = settings.get("message.timestamp.type") == "LogAppendTime"
        return Limits(
            message_bytes=int(settings.get("max.message.bytes", _DEFAULT_MESSAGE_BYTES)),
            needs_keys="compact" in settings.get("cleanup.policy", ""),
            back_ms=None if stamped else _number(settings.get("message.timestamp.before.max.ms")),
            ahead_ms=None if stamped else _number(settings.get("message.timestamp.after.max.ms")),
        )


def _number(text: str | None) -> int | None:
    return None if text is None else int(text)


def _batch_bytes(key: bytes | None, value: bytes | None, headers: list[Any], codec: int) -> int:
    """Returns the size of a batch with a single record, in bytes."""
    builder = MemoryRecordsBuilder(2, codec, 1 << 30)
    builder.append(int(time.time() * 1000), key, value, headers)
    builder.close()
    size: int = builder.size_in_bytes()
    return size
