"""A source and a sink in this process, a gateway and an application in processes of their own."""

import asyncio
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from pathlib import Path

from headrace.sdk import Headers, Message, Outcomes, Position, Rows, Sink, Source, serve

APPLICATION = Path(__file__).with_name("application.py")
DEADLINE_S = 120.0


class Numbers(Source):
    """Messages with the headers that it is given, and numbers as values."""

    name = "n"

    def __init__(self, headers: Sequence[Headers | None], payload: str = "") -> None:
        self._headers = headers
        self._payload = payload
        self.acknowledged_up_to = 0

    def partitions(self) -> list[str]:
        return ["0"]

    def read(self, partition: str, position: Position | None) -> Iterator[Message | None]:
        for n in range(0 if position is None else position.sequence, len(self._headers)):
            yield Message(f"{self._payload} {n}".encode(), sequence=n + 1, headers=self._headers[n])
        while True:
            yield None

    def acknowledged(self, partition: str, position: Position) -> None:
        self.acknowledged_up_to = position.sequence


class Kept(Sink):
    """Keeps what it receives."""

    name = "out"

    def __init__(self) -> None:
        self.received: dict[bytes, list[tuple[str, bytes | None]]] = {}

    def write(self, rows: Rows) -> Outcomes | None:
        self.received |= {message.value or b"": list(message.headers or ()) for message in rows.messages()}
        return None


@contextmanager
def connected(address: str, *connectors: Source | Sink, token: str | None = None) -> Iterator[None]:
    """Serves connectors in a thread."""
    loop, stop = asyncio.new_event_loop(), asyncio.Event()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    serving: list[Future[None]] = [
        asyncio.run_coroutine_threadsafe(serve(one, gateway=address, stop=stop, token=token), loop) for one in connectors
    ]
    try:
        yield
    finally:
        loop.call_soon_threadsafe(stop.set)
        for one in serving:
            with suppress(Exception):
                one.result(DEADLINE_S)
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


@contextmanager
def running(address: str, folder: Path, environ: Mapping[str, str], *options: str) -> Iterator[subprocess.Popen[bytes]]:
    """Runs the application."""
    command = [sys.executable, "-m", "headrace.cli", "run", str(APPLICATION), "--gateway", address]
    command += ["--checkpoint", str(folder / "checkpoint"), "--master", "local[2]", "--parallelism", "2", *options]
    plain = {name: value for name, value in os.environ.items() if not name.startswith(("HEADRACE_", "OTEL_"))}
    with (folder / "driver.log").open("wb") as log:
        process = subprocess.Popen(command, env={**plain, **environ}, stdout=log, stderr=log)
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(120)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def wait_until(what: str, is_so: object, folder: Path) -> None:
    """Waits until a condition holds."""
    deadline = time.monotonic() + DEADLINE_S
    while not is_so():  # type: ignore[operator]
        log = folder / "driver.log"
        assert time.monotonic() < deadline, f"not {what}: {log.read_text() if log.exists() else ''}"
        time.sleep(0.05)
