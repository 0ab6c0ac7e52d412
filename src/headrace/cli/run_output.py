"""What `headrace run` tells while an application runs: lines for people, JSON documents, or lines of the log."""

import logging
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

from headrace.terminal import Failure, print_json, print_line

log = logging.getLogger("headrace.run")
# The progress is part of the log whatever its level.
log.setLevel(logging.INFO)


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
            print_json({"seconds": round(seconds, 1), **figures, "lag": now.lag, "batch_ms": now.batch_ms}, compact=True)
        elif self.logs_json:
            fields = {"pipeline": self.pipeline, "query": query, "batch": now.batch, "batch_ms": now.batch_ms}
            figures = {"acknowledged": now.acknowledged, "rate": round(now.rate), "lag": now.lag}
            log.info("progress", extra={**fields, **figures})
        else:
            print_line(
                f"{time.strftime('%H:%M:%S')}  micro-batch {now.batch}, {now.batch_ms} ms  "
                f"{now.acknowledged:,} messages acknowledged, {now.rate:,.0f} a second  lag {now.lag:,}",
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
