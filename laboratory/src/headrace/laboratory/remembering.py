"""A gateway that has run for an hour when it starts: its history is full. Run as a process by `headrace bench operate`."""

import argparse
import asyncio
import logging
from collections.abc import Callable
from pathlib import Path

import uvloop

from headrace.contract import clock
from headrace.gateway import Config, Http
from headrace.gateway.core import Gateway, run_housekeeping
from headrace.gateway.core.state import EventKind
from headrace.gateway.core.status import HISTORY_S, INTERVAL_S
from headrace.gateway.http import http_server, new_app
from headrace.gateway.identity import TokenRegistry
from headrace.gateway.listen import listen, listen_http, new_server
from headrace.gateway.observer import Observer, Recording
from headrace.gateway.services import add_services

_MOMENTS = int(HISTORY_S / INTERVAL_S)
_FAULTS = 6


class _Past:
    """A clock that is set: an hour passes on it in a moment."""

    def __init__(self, monotonic_s: float, ahead_s: float) -> None:
        self.monotonic_s, self._ahead_s = monotonic_s, ahead_s

    def monotonic(self) -> float:
        return self.monotonic_s

    def now_ns(self) -> int:
        return int((self.monotonic_s + self._ahead_s) * 1e9)


async def remember(gateway: Gateway, recording: Recording, streams: list[str]) -> None:
    """Records an hour in which all of these streams have flowed, and some faults have begun and ended."""
    now = clock.monotonic()
    with clock.use(_Past(now - HISTORY_S, clock.now() - now)) as past:
        rows = [gateway.stream(name) for name in streams]
        for moment in range(_MOMENTS):
            past.monotonic_s += INTERVAL_S
            for number, stream in enumerate(rows):
                stream.received_messages += 100 + (moment * number) % 37
                stream.tally.total = stream.received_messages
            await recording.history.take()
            if moment % (_MOMENTS // _FAULTS) == 0:
                gateway.event_log.add(EventKind.FAULT_BEGAN, "sink totals", "sink-away: no connector serves it")
                gateway.event_log.add(EventKind.FAULT_ENDED, "sink totals", "sink-away, after 5 s")
    for stream in rows:
        # The site begins to count anew.
        stream.received_messages = stream.tally.total = 0


async def run(config: Config, streams: list[str], ready: Callable[[str, int], None]) -> None:
    """Runs a gateway until the process is ended.

    Args:
        config: Where it listens.
        streams: The streams that its history knows.
        ready: Is called with its address, and with how many bytes the values of its history take.
    """
    gateway = Gateway(config.limits)
    observer = Observer(gateway, config.http)
    recording = Recording(gateway, observer)
    await remember(gateway, recording, streams)
    registry = TokenRegistry(())
    server = new_server(config, registry, gateway.open_calls, gateway.refusals)
    add_services(gateway, server, observer)
    address = listen(server, config)
    app = new_app(gateway, registry, config.http, address, loopback=True, observer=observer, recording=recording)
    async with http_server(app, listen_http(config), None):
        await server.start()
        ready(address, recording.history.size_bytes)
        await asyncio.gather(run_housekeeping(gateway), recording.run())


def main() -> None:
    """Runs a gateway as the arguments say."""
    parser = argparse.ArgumentParser()
    for name in ("--listen", "--http-listen", "--ready-file", "--history-file"):
        parser.add_argument(name, required=True)
    for name in ("--sessions", "--partitions"):
        parser.add_argument(name, type=int, required=True)
    given = parser.parse_args()
    logging.getLogger("headrace").setLevel(logging.ERROR)
    streams = [f"bench{session}/{one}" for session in range(given.sessions) for one in range(given.partitions)]

    def ready(address: str, size: int) -> None:
        Path(given.history_file).write_text(str(size))
        Path(given.ready_file).write_text(address)

    uvloop.run(run(Config(listen=given.listen, http=Http(listen=given.http_listen)), streams, ready))


if __name__ == "__main__":
    main()
