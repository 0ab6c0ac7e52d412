"""kafka-python's producer, changed so that its transactions continue after a network failure."""

import time
from contextlib import suppress
from typing import Any

from kafka import KafkaProducer
from kafka import errors as kafka_errors
from kafka.future import Future

from headrace.connectors.kafka.client import Client
from headrace.connectors.kafka.internals import sender, transactions

_SETTLED_S = 2.0
_POLL_S = 0.02


class Producer(KafkaProducer):  # type: ignore[misc]
    """A `KafkaProducer` for transactions that works around bugs of version 3.0.12 with failing networks."""

    def __init__(self, **configs: Any) -> None:
        """As `KafkaProducer`."""
        super().__init__(**{**configs, "kafka_client": _Client})

    def commit(self, seconds: float) -> None:
        """As `commit_transaction`, but with a time limit.

        Raises:
            KafkaError: It is not known whether the transaction is committed.
        """
        result = transactions(self).begin_commit()
        sender(self).wakeup()
        if not result.wait(timeout_ms=seconds * 1000):
            raise kafka_errors.KafkaTimeoutError(f"a commit was not confirmed within {seconds:g} s")

    def cause(self) -> kafka_errors.KafkaError | None:
        """Returns the first cause of a failed transaction, if known: the raised error is often only a consequence."""
        state = transactions(self)
        deadline = time.monotonic() + _SETTLED_S
        while state.is_bumping_epoch() and time.monotonic() < deadline:
            time.sleep(_POLL_S)  # it asks a broker whether another producer has its id
        error = state.last_error
        return error if isinstance(error, kafka_errors.KafkaError) else None

    def abandon(self) -> None:
        """As `close`, but without first sending what should be aborted."""
        sender(self).force_close()
        with suppress(kafka_errors.KafkaError):
            self.close(timeout=0)


class _Client(Client):
    """The connections of a producer.

    A producer drops the request that it was about to send if a node cannot be reached, or is busy: then a partition is never
    added to the transaction, or a commit is never requested. And it gives up the transaction if an answer takes too long. This
    client reports all of these as broken connections, so that the producer looks up the responsible node again, and sends the
    request there.
    """

    def await_ready(self, node_id: Any, timeout_ms: int = 30000) -> bool:
        """Waits until a request may be sent to a node; returns False if that takes too long."""
        try:
            return bool(super().await_ready(node_id, timeout_ms))
        except kafka_errors.KafkaConnectionError:
            return False

    def send(self, node_id: Any, request: Any, **options: Any) -> Future:
        """Sends a request; returns a future of the answer."""
        answer = Future()
        super().send(node_id, request, **options).add_both(_pass_on, answer)
        return answer


def _pass_on(answer: Future, outcome: Any) -> None:
    """Passes on an answer, or the error that occurred instead."""
    match outcome:
        case kafka_errors.RequestTimedOutError() | kafka_errors.NodeNotReadyError():
            answer.failure(kafka_errors.KafkaConnectionError(str(outcome)))
        case BaseException():
            answer.failure(outcome)
        case _:
            answer.success(outcome)
