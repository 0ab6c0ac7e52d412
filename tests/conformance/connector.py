"""What the source and the sink of this folder do alike: sessions on the raw protocol, one after the other."""

import argparse
import asyncio
import os
import random
import secrets
import signal
import sys
import time
from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any, TextIO

import grpc
import grpc.aio
from google.rpc.error_details_pb2 import ErrorInfo
from google.rpc.status_pb2 import Status

from headrace.protocol.v1 import connector_pb2

POLL_S = 0.01
HEARTBEAT_S = 1.0
CLOSED = "the raw connector closes"
"""Its word for the kit."""
OPTIONS = [("grpc.max_send_message_length", -1), ("grpc.enable_retries", 0), ("grpc.use_local_subchannel_pool", 1)]
PERMANENT = {
    grpc.StatusCode.INVALID_ARGUMENT,
    grpc.StatusCode.NOT_FOUND,
    grpc.StatusCode.OUT_OF_RANGE,
    grpc.StatusCode.RESOURCE_EXHAUSTED,
    grpc.StatusCode.FAILED_PRECONDITION,
    grpc.StatusCode.UNAUTHENTICATED,
    grpc.StatusCode.PERMISSION_DENIED,
    grpc.StatusCode.ABORTED,
    grpc.StatusCode.UNIMPLEMENTED,
}

REASONS = {"GATEWAY_STOPPING": True, "TOO_MANY_SESSIONS": True, "READ_TIMEOUT": True, "HELLO_TIMEOUT": True} | dict.fromkeys(
    ("TOKEN_REVOKED", "TAKEN_OVER", "UNAUTHENTICATED", "NOT_PERMITTED", "MALFORMED_MESSAGE"), False
)
"""Whether to reconnect after a reason: the reasons that the kit gives, and some more."""


class Ended(Exception):
    """The session is over, and another one may follow."""


class Connector(ABC):
    """A connector; what a check judges has a method that a subclass can break."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.instance = "raw-connector"
        self.stopping = asyncio.Event()
        self.writing = asyncio.Lock()
        self.state = "away"
        self.start_id = secrets.token_hex(4)
        self.log: TextIO = sys.stderr
        self.began = time.monotonic()

    @abstractmethod
    def dial(self, channel: grpc.aio.Channel) -> Any:
        """The call of a session."""

    @abstractmethod
    async def send(self, **message: object) -> None:
        """Sends a message."""

    @abstractmethod
    async def begin(self) -> None:
        """Sends Hello."""

    @abstractmethod
    def welcomed(self, response: Any) -> None:
        """Takes Welcome."""

    @abstractmethod
    async def take(self, response: Any) -> None:
        """Handles a message of the gateway."""

    @abstractmethod
    async def step(self) -> bool:
        """Does what can be done now; returns whether there is more."""

    @abstractmethod
    async def goodbye(self, reason: str) -> None:
        """Leaves."""

    def unknown(self) -> None:
        """A message that a later version of the protocol has."""
        print("a message of an unknown kind is ignored", file=self.log)

    def drained(self, drain: Any) -> None:
        self.leave_by = time.monotonic() + drain.deadline_ms / 1000 * 0.8

    def leaving(self) -> bool:
        """Whether the gateway has asked to reconnect, and nothing is to be waited for."""
        return self.leave_by > 0 and (self.settled() or time.monotonic() >= self.leave_by)

    def settled(self) -> bool:
        """Whether nothing is to be waited for before it leaves."""
        return True

    def finished(self) -> bool:
        """Whether nothing is left to do, ever."""
        return False

    async def run_as_program(self) -> int:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self.stop)
        return await self.run()

    async def run(self) -> int:
        code = await self.stay_connected()
        self.release(code)
        return code

    def release(self, code: int) -> None:
        """Would release what it held: the `close` of an SDK."""
        print(CLOSED, file=self.log, flush=True)

    async def stay_connected(self) -> int:
        """Serves one session after the other; returns the exit code."""
        bound = 0.05
        while not self.stopping.is_set():
            began = time.monotonic()
            try:
                await self.session()
                return 0
            except Ended:
                pass
            except grpc.aio.AioRpcError as error:
                if not self.transient(error):
                    self.tell(error)
                    return 1
            if time.monotonic() - began > 2:
                bound = 0.05
            self.state = "away"
            self.between_sessions()
            bound = await self.back_off(bound)
        return 0

    def between_sessions(self) -> None:  # noqa: B027
        """Another session follows; a fault may do something here."""

    def stop(self) -> None:
        """SIGTERM."""
        self.stopping.set()

    def transient(self, error: grpc.aio.AioRpcError) -> bool:
        reason = self.reason(error)
        return self.transient_status(error) if reason not in REASONS else REASONS[reason]

    def reason(self, error: grpc.aio.AioRpcError) -> str:
        """The gateway's reason for programs; empty where there is none."""
        info = ErrorInfo()
        for key, value in error.trailing_metadata() or ():
            if key == "grpc-status-details-bin":
                for detail in Status.FromString(value).details:  # type: ignore[arg-type]
                    if detail.Unpack(info) and info.domain == "headrace":
                        return info.reason
        return ""

    def transient_status(self, error: grpc.aio.AioRpcError) -> bool:
        return error.code() not in PERMANENT or "too_many_pings" in (error.details() or "")

    def tell(self, error: grpc.aio.AioRpcError) -> None:
        print(f"{error.code().name}: {error.details()}", file=self.log, flush=True)

    async def back_off(self, bound: float) -> float:
        try:
            async with asyncio.timeout(random.uniform(0, bound)):
                await self.stopping.wait()
        except TimeoutError:
            pass
        return min(2.0, 2 * bound)

    def metadata(self) -> tuple[tuple[str, str], ...]:
        return (("authorization", f"Bearer {self.options.token}"),)

    async def session(self) -> None:
        """One session. Returns where nothing is left to do; raises where another session may follow."""
        async with self.channel() as channel:
            self.call = self.dial(channel)
            self.leave_by = 0.0
            receiving: asyncio.Task[None] | None = None
            stopping = asyncio.create_task(self.stopping.wait())
            try:
                await self.begin()
                self.state = "greeting"
                first = asyncio.create_task(self.call.read())
                await asyncio.wait({first, stopping}, return_when=asyncio.FIRST_COMPLETED)
                if not first.done():
                    return
                response = await self.answer(first.result())
                self.welcomed(response)
                await self.send(report=self.report())
                self.beats_at = time.monotonic() + HEARTBEAT_S
                self.state = "serving"
                receiving = asyncio.create_task(self.receive())
                while not self.finished():
                    if receiving.done():
                        await receiving
                    if self.leaving():
                        await self.goodbye("drained")
                        raise Ended
                    if self.stopping.is_set():
                        await self.goodbye("stopped")
                        return
                    if time.monotonic() >= self.beats_at:
                        await self.beat()
                    if not await self.step():
                        await asyncio.sleep(POLL_S)
                await self.goodbye("everything is acknowledged")
            except asyncio.InvalidStateError:
                await self.answer(None)
            finally:
                stopping.cancel()
                if receiving is not None:
                    receiving.cancel()
                    await asyncio.gather(receiving, return_exceptions=True)
                self.call.cancel()

    def channel(self) -> grpc.aio.Channel:
        if self.options.tls_ca is None:
            return grpc.aio.insecure_channel(self.options.gateway, options=self.channel_options())
        return grpc.aio.secure_channel(self.options.gateway, self.credentials(), options=self.channel_options())

    def credentials(self) -> grpc.ChannelCredentials:
        return grpc.ssl_channel_credentials(self.trusted(), *self.presented())

    def trusted(self) -> bytes:
        """The certificates of authorities."""
        return Path(self.options.tls_ca).read_bytes()

    def presented(self) -> tuple[bytes | None, bytes | None]:
        """Its key and its certificate, where it has them."""
        if self.options.tls_key is None:
            return None, None
        return Path(self.options.tls_key).read_bytes(), Path(self.options.tls_cert).read_bytes()

    def report(self) -> connector_pb2.Report:
        age_ms = round(1000 * (time.monotonic() - self.began))
        return connector_pb2.Report(state=connector_pb2.CONNECTOR_STATE_RUNNING, state_age_ms=age_ms)

    async def beat(self) -> None:
        """Tells the gateway that it is still there."""
        self.beats_at = time.monotonic() + HEARTBEAT_S
        await self.send(report=self.report())

    def channel_options(self) -> list[tuple[str, int]]:
        return [*OPTIONS, ("grpc.max_receive_message_length", -1)]

    async def receive(self) -> None:
        """Reads what the gateway sends, until the call ends."""
        while True:
            await self.take(await self.answer(await self.call.read()))

    async def answer(self, response: Any) -> Any:
        """A message of the gateway; raises where it is the end of the call."""
        if response is not None and response is not grpc.aio.EOF:
            return response
        code = await self.call.code()
        if code is not grpc.StatusCode.OK:
            trailing = await self.call.trailing_metadata()
            raise grpc.aio.AioRpcError(code, grpc.aio.Metadata(), trailing, await self.call.details())
        raise Ended

    async def to_the_end(self) -> None:
        """Waits for the gateway to end the call."""
        try:
            async with asyncio.timeout(1):
                while await self.call.read() is not grpc.aio.EOF:
                    pass
        except (TimeoutError, grpc.aio.AioRpcError, asyncio.InvalidStateError):
            pass


def parser() -> argparse.ArgumentParser:
    options = argparse.ArgumentParser()
    options.add_argument("folder")
    options.add_argument("--gateway", default=os.environ.get("HEADRACE_GATEWAY"))
    options.add_argument("--token", default=os.environ.get("HEADRACE_TOKEN"))
    options.add_argument("--tls-ca")
    options.add_argument("--tls-cert")
    options.add_argument("--tls-key")
    options.add_argument("--fault", default="none")
    return options
