"""The run of one check: a gateway of its own, a connector that is started for it, and a folder."""

import asyncio
import base64
import os
import secrets
import shlex
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

import grpc

from headrace.conformance.core.changes import Changes
from headrace.conformance.core.errors import CheckFailed, SpecError
from headrace.conformance.core.process import ConnectorProcess, kill_group
from headrace.conformance.core.relay import PingCounter
from headrace.conformance.core.spec import Spec
from headrace.conformance.core.trace import Trace

_LOG_LINES = 12
_MOMENT_S = 0.1
_VARIABLES = {"ca": "CA", "certificate": "CERT", "key": "KEY"}

S = TypeVar("S", bound=Spec)


class AnyGateway(Protocol):
    """The parts that the gateways for sources and sinks share."""

    sessions: Any
    port: int

    @property
    def address(self) -> str:
        """Where it listens."""

    async def start(self, credentials: grpc.ServerCredentials | None = None) -> None:
        """Begins to listen; with credentials, by TLS."""

    async def stop(self) -> None:
        """Cuts every connection."""


G = TypeVar("G", bound=AnyGateway)


class Trial(Generic[S, G]):
    """The connector that a check acts on. `start` starts it, and the end of the trial kills it."""

    _launch = staticmethod(ConnectorProcess.start)

    def __init__(
        self, check: str, command: Sequence[str], spec: S, gateway: G, work: Path, trace: Trace, changes: Changes, token: str
    ) -> None:
        """Keeps what it is given; `work` is an empty folder of its own."""
        self.spec = spec
        self.gateway = gateway
        self.trace = trace
        self.token = token
        self._check = check
        self._command = tuple(command)
        self.work = work
        self.changes = changes
        self._processes: list[ConnectorProcess] = []
        self._sessions_seen = 0
        self._output, self._log = work / "output", work / "log"
        self._added: list[str] = []
        """Arguments that are added to the command."""
        self._variables: dict[str, str] = {}
        """Further variables of the environment."""
        self._relay: PingCounter | None = None
        self.started = 0.0
        """When the connector was started last, by the monotonic clock."""
        self._closed_before = 0
        self.breaches: list[tuple[str, str]] = []
        """Standing rules that were broken: the name of the check, and what happened."""

    # The connector

    @property
    def process(self) -> ConnectorProcess:
        """The connector as it was started last."""
        return self._processes[-1]

    async def start(self) -> None:
        """Starts the connector; from the second time on by the command for that, if there is one."""
        command = [*(self._filled(word) for word in self._command), *self._added]
        if self._processes and self.spec.restart is not None:
            command = ["/bin/sh", "-c", f"exec {self._filled(self.spec.restart)} {shlex.join(self._added)}"]
        self.trace.event(f"start: {shlex.join(command)}")
        self.started = time.monotonic()
        self._closed_before += self.closed()
        process = await self._launch(command, self._environ(), self._output, self._log, self._process_ended)
        self._processes.append(process)

    async def kill(self) -> None:
        """Kills the connector with SIGKILL."""
        self.trace.event("SIGKILL")
        await self.process.kill()

    def terminate(self) -> None:
        """Asks the connector to end, with SIGTERM."""
        self.trace.event("SIGTERM")
        self.process.terminate()

    async def exits(self, what: str) -> int:
        """Waits until the connector has ended; returns its exit code.

        Raises:
            CheckFailed: It has not ended in time.
        """
        await self.until(lambda: not self.process.running, what, self.spec.deadlines.shutdown, must_run=False)
        code = self.process.exit_code
        assert code is not None
        return code

    def log_lines(self) -> tuple[str, ...]:
        """The last lines that the connector has written to standard error."""
        text = self._log.read_text(errors="replace") if self._log.exists() else ""
        return tuple(text.splitlines()[-_LOG_LINES:])

    def said(self) -> str:
        """Everything that the connector has written, to standard output and to standard error."""
        return "".join(file.read_text(errors="replace") for file in (self._output, self._log) if file.exists())

    def closed(self) -> int:
        """How often the connector has written that it closes, since it was started last; 0 if it does not write that."""
        return self.said().count(self.spec.closed) - self._closed_before if self.spec.closed else 0

    async def close(self) -> None:
        """Ends the connector and the gateway."""
        for process in self._processes:
            await process.kill()
        if self._relay is not None:
            await self._relay.stop()
        await self.gateway.stop()

    # The gateway

    @property
    def address(self) -> str:
        """Where the connector is to connect to."""
        return self.gateway.address if self._relay is None else self._relay.address

    async def session(self) -> Any:
        """The next session that the connector begins, once its Hello has arrived.

        Raises:
            CheckFailed: It has not begun one in time.
        """
        number = self._sessions_seen
        what = "Hello" if number == 0 else "Hello of a new session"
        await self.until(lambda: self._greeted(number), what, self.spec.deadlines.connect)
        greeted = next(index for index, session in enumerate(self.gateway.sessions) if index >= number and session.hello)
        self._sessions_seen = greeted + 1
        return self.gateway.sessions[greeted]

    def _greeted(self, number: int) -> bool:
        return any(session.hello is not None for session in self.gateway.sessions[number:])

    async def cut(self) -> None:
        """Kills the gateway: cuts all connections, and listens no more."""
        self.trace.event("the gateway is killed")
        await self.gateway.stop()

    async def bring_back(self) -> None:
        """Starts the gateway again, at the same address."""
        await self.gateway.start()
        self.trace.event("the gateway is back")

    async def count_pings(self) -> PingCounter:
        """Puts a relay between the connector and the gateway, which counts pings. To be called before `start`."""
        self._relay = PingCounter(self.gateway.port)
        await self._relay.start()
        return self._relay

    def add_arguments(self, arguments: str, files: Mapping[str, Path]) -> None:
        """Adds arguments to the command of the next start.

        Args:
            arguments: As a shell would divide them; the names of files are filled in.
            files: By their names in braces. Each is a variable of the environment, too, by that name after `HEADRACE_TLS_`.
        """
        paths = {name: str(path) for name, path in files.items()}
        self._added += [self._filled(word, paths) for word in shlex.split(arguments)]
        self._variables |= {f"HEADRACE_TLS_{_VARIABLES[name]}": path for name, path in paths.items()}

    def hold(self) -> None:
        """Has the gateway give the connector nothing to do, so that it writes nothing at the wrong moment."""

    async def at_work(self, session: Any) -> None:
        """Waits until the connector has taken Welcome."""
        await self.until_quiet()

    async def has_work(self, session: Any) -> None:
        """As `at_work`, and waits until the connector has something that the gateway has not settled, if it ever has."""
        await self.at_work(session)

    def leave_unsettled(self) -> None:
        """Has the gateway settle nothing. To be called before `start`."""

    def settle(self, session: Any) -> None:
        """Settles everything that arrives in a session."""

    # Waiting

    async def until(
        self, condition: Callable[[], bool], what: str, seconds: float | None = None, *, must_run: bool = True
    ) -> None:
        """Waits for something that the connector must do.

        Args:
            condition: Whether it has done it.
            what: What that is, for the failure: "it did not ...".
            seconds: The deadline; by default the deadline of answers.
            must_run: False where the connector may end meanwhile.

        Raises:
            CheckFailed: It has not done it in time, or has ended.
        """
        seconds = self.spec.deadlines.answer if seconds is None else seconds
        running = self.process if must_run else None

        def over() -> bool:
            return condition() or (running is not None and not running.running)

        await self.changes.until(over, seconds)
        if condition():
            return
        if running is not None and not running.running:
            raise CheckFailed(f"the connector ended with exit code {running.exit_code}, before this: {what}")
        raise CheckFailed(f"not within {seconds:g} s: {what}")

    async def never(self, condition: Callable[[], bool], what: str, seconds: float | None = None) -> None:
        """Watches for a while that something does not happen.

        Raises:
            CheckFailed: It happened.
        """
        if await self.changes.until(condition, self.spec.deadlines.quiet if seconds is None else seconds):
            raise CheckFailed(what)

    async def silence(self) -> None:
        """Lets the time pass in which everything arrives that is on its way."""
        await self.changes.until(lambda: False, self.spec.deadlines.quiet)

    async def until_quiet(self, seconds: float = _MOMENT_S) -> None:
        """Waits until nothing has arrived for a moment."""
        while await self.changes.next(seconds):
            pass

    async def pause(self, seconds: float) -> None:
        """Lets time pass: a slow gateway, or one that is away."""
        self.trace.event(f"the gateway does nothing for {seconds:g} s")
        await asyncio.sleep(seconds)

    def require(self, holds: bool, otherwise: str) -> None:
        """Fails the check unless something holds.

        Raises:
            CheckFailed: It does not.
        """
        if not holds:
            raise CheckFailed(otherwise)

    def breach(self, check: str, what: str) -> None:
        """Notes that a standing rule was broken."""
        self.trace.event(f"BREACH of {check}: {what}")
        self.breaches.append((check, what))

    # Commands of the specification

    async def run(self, name: str, command: str, **values: object) -> bytes:
        """Runs a command of the specification in a shell; returns its output.

        Raises:
            SpecError: It failed, or took too long.
        """
        filled = self._filled(command, {key: str(value) for key, value in values.items()})
        self.trace.event(f"{name}: {filled}")
        process = await asyncio.create_subprocess_exec(
            *("/bin/sh", "-c", filled),
            env=self._environ(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        try:
            async with asyncio.timeout(self.spec.deadlines.command):
                output, errors = await process.communicate()
        except (TimeoutError, asyncio.CancelledError) as error:
            kill_group(process)
            await process.wait()
            if isinstance(error, TimeoutError):
                raise SpecError(f"{name}: did not end within {self.spec.deadlines.command:g} s: {filled}") from None
            raise
        if process.returncode != 0:
            said = errors.decode(errors="replace").strip().splitlines()[-1:]
            raise SpecError(f"{name}: exit code {process.returncode}: {filled}{': ' if said else ''}{''.join(said)}")
        return output

    def _filled(self, text: str, values: Mapping[str, str] | None = None) -> str:
        """A text with its placeholders filled in; other braces stay."""
        known = {
            "gateway": self.address,
            "token": self.token,
            "work": str(self.work),
            "check": self._check,
            "output": str(self._output),
        }
        for name, value in (known | dict(values or {})).items():
            text = text.replace(f"{{{name}}}", value)
        return text

    def _environ(self) -> dict[str, str]:
        ours = {"GATEWAY": self.address, "TOKEN": self.token, "WORK": str(self.work), "CHECK": self._check}
        return {**os.environ, **{f"HEADRACE_{name}": value for name, value in ours.items()}, **self._variables}

    def _process_ended(self) -> None:
        self.trace.event("the process has ended")
        self.changes.notify()


def new_token() -> str:
    """A token that no connector can know beforehand."""
    return base64.urlsafe_b64encode(secrets.token_bytes(12)).decode()
