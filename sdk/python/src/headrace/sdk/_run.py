"""Runs a connector as a process, with signal handling and exit codes."""

import asyncio
import contextlib
import logging
import os
import signal
import sys
from collections.abc import Coroutine, Iterator
from pathlib import Path
from typing import Any

from headrace.contract.certificates import read_again
from headrace.contract.errors import HeadraceError
from headrace.logs.output import LogFormatError, configure_from_environment
from headrace.machine.resources import keep_freed_memory
from headrace.sdk._serve import serve
from headrace.sdk._settings import Settings, Tls
from headrace.sdk.sinks.driver import AnySink
from headrace.sdk.sources.source import AsyncSource, Source

log = logging.getLogger("headrace.sdk")

# With Python's default of 5 ms, a busy thread of a source delays the event loop so much that throughput is halved.
_SWITCH_INTERVAL_S = 0.0005
# How long tasks that are left may take to end once they are cancelled.
_CANCELLED_S = 1.0


def run(
    connector: Source | AsyncSource | AnySink,
    *,
    gateway: str | None = None,
    instance: str | None = None,
    token: str | None = None,
    token_file: Path | None = None,
    tls: Tls | None = None,
    settings: Settings | None = None,
) -> int:
    """Runs a connector: `sys.exit(run(Orders()))`.

    A source runs until it has ended and everything is acknowledged, a sink until it is stopped. SIGTERM and SIGINT stop it
    cleanly. A source then sends what it has read, and waits up to `settings.drain_seconds` for acknowledgements; the next run
    resends everything that is not acknowledged by then. A sink finishes and answers what it has received, within that time. A
    second signal ends the process immediately. SIGHUP ends nothing: certificates of servers in this process are read again.

    At the end, also after an error, the SDK calls the connector's `close`. If it raises, or does not return within
    `settings.close_seconds`, the log names it, and the exit code stays the same.

    If HEADRACE_LOG_FORMAT is `json` or `console`, the logs of the process go to standard error in this format, unless the program
    has configured logging itself.

    Args:
        connector: The source or sink.
        gateway: See `serve`.
        instance: See `serve`.
        token: See `serve`.
        token_file: See `serve`.
        tls: See `serve`.
        settings: See `serve`.

    Returns:
        The exit code: 0 if the source has ended or the connector was stopped, 1 if it failed, 2 if the connector or a setting
        is invalid. Failures are logged. After a second signal, the process exits with 130 or 143.
    """
    try:
        configure_from_environment()
    except LogFormatError as error:
        log.error("%s", error)
        return error.exit_code
    sys.setswitchinterval(_SWITCH_INTERVAL_S)
    keep_freed_memory()

    async def main() -> None:
        stop = asyncio.Event()
        with _signals_set(stop):
            await serve(
                connector,
                gateway=gateway,
                instance=instance,
                token=token,
                token_file=token_file,
                tls=tls,
                settings=settings,
                stop=stop,
            )

    try:
        _run_on_loop(main())
    except HeadraceError as error:
        log.error("connector stopped: %s", error)
        return error.exit_code
    return 0


def _run_on_loop(main: Coroutine[Any, Any, None]) -> None:
    """Runs a coroutine on a new event loop. Unlike `asyncio.run`, it ends although a task catches its cancellation."""
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    try:
        loop.run_until_complete(main)
    finally:
        try:
            loop.run_until_complete(_cancel_tasks())
            loop.run_until_complete(loop.shutdown_asyncgens())
            loop.run_until_complete(loop.shutdown_default_executor())
        finally:
            asyncio.set_event_loop(None)
            loop.close()


async def _cancel_tasks() -> None:
    """Cancels all other tasks, and waits for them, but not for ever."""
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    for task in tasks:
        task.cancel()
    if not tasks:
        return
    _, left = await asyncio.wait(tasks, timeout=_CANCELLED_S)
    for task in left:
        log.warning("%s catches its cancellation; the connector ends without it", task.get_name())


@contextlib.contextmanager
def _signals_set(stop: asyncio.Event) -> Iterator[None]:
    """Makes SIGTERM and SIGINT set the event; a second signal ends the process. SIGHUP only reads certificates again."""
    loop = asyncio.get_running_loop()

    def received(number: int) -> None:
        if stop.is_set():
            os._exit(128 + number)
        log.info("%s: stopping", signal.Signals(number).name)
        stop.set()

    # Signals can only be handled on the main thread; on others, the embedding program handles them.
    handled = []
    for number in (signal.SIGTERM, signal.SIGINT):
        with contextlib.suppress(ValueError, RuntimeError, NotImplementedError):
            loop.add_signal_handler(number, received, number)
            handled.append(number)

    hung_up = False

    def look_again() -> None:
        nonlocal hung_up
        hung_up = False
        log.info("SIGHUP: reading certificates again")
        read_again()

    def hang_up(*_: object) -> None:
        nonlocal hung_up
        if not hung_up:
            hung_up = True
            loop.call_soon_threadsafe(look_again)

    # A handler of the program itself stays. The loop's own one would not do: for a moment after it is removed, SIGHUP ends the
    # process.
    before = signal.getsignal(signal.SIGHUP)
    replaced = False
    if before in (signal.SIG_DFL, signal.SIG_IGN):
        with contextlib.suppress(ValueError):
            signal.signal(signal.SIGHUP, hang_up)
            replaced = True
    try:
        yield
    finally:
        for number in handled:
            loop.remove_signal_handler(number)
        if replaced:
            signal.signal(signal.SIGHUP, before)
