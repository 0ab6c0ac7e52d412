"""What `headrace run` tells while an application runs: its figures, as lines for people, JSON documents, or lines of the log."""

import logging
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Any, NoReturn

from headrace.terminal import Connection, Failure, counted, print_json, print_line

REFUSED_FOR_S = 60.0
"""How long a gateway that has refused to answer is not asked again: the token may get the right meanwhile."""


class Figures:
    """Asks a gateway how much of some streams is acknowledged, and how much waits."""

    def __init__(self, connection: Connection, patterns: list[str]) -> None:
        """Takes how to reach the gateway, and the patterns of the streams."""
        self._connection = connection
        self._patterns = patterns
        self._not_before = float("-inf")

    def ask(self, now: float) -> tuple[int, int] | None:
        """Returns the numbers of acknowledged and of waiting messages; None if the gateway does not answer.

        Args:
            now: The time, in seconds on a monotonic clock.
        """
        import grpc

        from headrace.pipelines.runtime import matches
        from headrace.protocol.v1 import admin_pb2, admin_pb2_grpc

        if now < self._not_before:
            return None
        try:
            with self._connection.channel() as channel:
                stub = admin_pb2_grpc.AdminServiceStub(channel)
                status = stub.GetStatus(admin_pb2.GetStatusRequest(), timeout=2, metadata=self._connection.metadata)
        except grpc.RpcError as error:
            refused = (grpc.StatusCode.PERMISSION_DENIED, grpc.StatusCode.UNAUTHENTICATED)
            if isinstance(error, grpc.Call) and error.code() in refused:
                self._not_before = now + REFUSED_FOR_S
            return None
        own = [stream for stream in status.streams if any(matches(pattern, stream.stream) for pattern in self._patterns)]
        return sum(s.acknowledged_messages for s in own), sum(s.lag_messages for s in own)


log = logging.getLogger("headrace.run")
# The progress is part of the log whatever its level.
log.setLevel(logging.INFO)


class Aside:
    """Work beside a query, which does not depend on it: an error ends nothing, and is logged once until it is another one.

    A context manager, entered each time that the work is done.
    """

    def __init__(self, what: str) -> None:
        """Takes the work, for people: "show the progress"."""
        self._what = what
        self._reason = ""

    def __enter__(self) -> None:
        """Begins it."""

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> bool:
        """Logs an error, and returns whether it ends here."""
        if not isinstance(error, Exception):
            return False
        if (why := f"{type(error).__name__}: {error}") != self._reason:
            self._reason = why
            log.warning("cannot %s: %s; the query continues", self._what, why)
        return True


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a query is.

    Attributes:
        batch: Its last micro-batch.
        batch_ms: How long that took, in milliseconds.
        acknowledged: The number of messages that are acknowledged.
        rate: Recently acknowledged messages per second.
        lag: The number of messages that wait.
    """

    batch: int
    batch_ms: int
    acknowledged: int
    rate: float
    lag: int


@dataclass(frozen=True, slots=True)
class Output:
    """Prints in the formats that the options say.

    Attributes:
        pipeline: The name of the application.
        logs_json: Whether standard error has lines of JSON only.
        prints_json: Whether progress and result are JSON documents on standard output.
    """

    pipeline: str
    logs_json: bool
    prints_json: bool

    def show(self, now: Progress, query: str, seconds: float) -> None:
        """Prints the progress of a query since its start."""
        if self.prints_json:
            figures = {"batch": now.batch, "acknowledged": now.acknowledged, "rate": round(now.rate)}
            print_json({"uptime_s": round(seconds, 1), **figures, "lag": now.lag, "batch_ms": now.batch_ms}, compact=True)
        elif self.logs_json:
            fields = {"pipeline": self.pipeline, "query": query, "batch": now.batch, "batch_ms": now.batch_ms}
            figures = {"acknowledged": now.acknowledged, "rate": round(now.rate), "lag": now.lag}
            log.info("progress", extra={**fields, **figures})
        else:
            print_line(
                f"{time.strftime('%H:%M:%S')}  micro-batch {now.batch}, {now.batch_ms} ms  "
                f"{counted(now.acknowledged, 'message')} acknowledged, {now.rate:,.0f} a second  lag {now.lag:,}",
                err=True,
            )

    def traceback(self, text: str, query: str) -> None:
        """Prints where a function of the application has raised."""
        if self.logs_json:
            log.error("query failed", extra={"pipeline": self.pipeline, "query": query, "exception": text})
        else:
            print_line(text, err=True)

    def end(self, failure: str, exit_code: int, result: Mapping[str, Any] | None = None) -> NoReturn:
        """Ends the command with an error."""
        if self.logs_json:
            log.error("application failed", extra={"pipeline": self.pipeline, "error": failure})
        if self.logs_json and not self.prints_json:
            sys.exit(exit_code)
        raise Failure(failure, exit_code, summary="failed", result=result)
