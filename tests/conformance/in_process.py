"""Connectors of this folder as tasks of the test's own process, for thousands of starts. SIGKILL cancels the task."""

import asyncio
import traceback
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.conformance import sink_faults, source_faults
from tests.conformance.connector import Connector

from headrace.conformance.core.changes import Changes
from headrace.conformance.core.spec import SinkSpec, SourceSpec
from headrace.conformance.core.trace import Trace
from headrace.conformance.sinks.session import SinkGateway
from headrace.conformance.sinks.trial import SinkTrial
from headrace.conformance.sources.gateway import SourceGateway
from headrace.conformance.sources.trial import SourceTrial

_CONNECTORS: dict[str, Callable[[Sequence[str]], Connector]] = {
    "tests.conformance.source_faults": source_faults.connector,
    "tests.conformance.sink_faults": sink_faults.connector,
}


class InProcess:
    """Stands in for `ConnectorProcess`."""

    def __init__(self, connector: Connector, log: Path, ended: Callable[[], None]) -> None:
        self.exit_code: int | None = None
        self._connector = connector
        self._task = asyncio.create_task(self._run(log, ended))

    @classmethod
    async def start(
        cls, command: Sequence[str], environ: Mapping[str, str], output: Path, log: Path, ended: Callable[[], None]
    ) -> "InProcess":
        """Starts what `python -m MODULE ARGUMENTS` would start."""
        module, *words = command[command.index("-m") + 1 :]
        words += [f"--gateway={environ['HEADRACE_GATEWAY']}", f"--token={environ['HEADRACE_TOKEN']}"]
        return cls(_CONNECTORS[module](words), log, ended)

    @property
    def running(self) -> bool:
        return self.exit_code is None

    def terminate(self) -> None:
        if self.running:
            self._connector.stop()

    async def kill(self) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self, log: Path, ended: Callable[[], None]) -> None:
        with log.open("a", buffering=1) as out:
            self._connector.log = out
            try:
                self.exit_code = await self._connector.run()
            except asyncio.CancelledError:
                self.exit_code = -9
                raise
            except Exception:
                traceback.print_exc(file=out)
                self.exit_code = 1
            finally:
                ended()


class _Source(SourceTrial):
    _launch: Any = staticmethod(InProcess.start)


class _Sink(SinkTrial):
    _launch: Any = staticmethod(InProcess.start)


def new_source_trial(
    check: str, command: Sequence[str], spec: SourceSpec, work: Path, trace: Trace, changes: Changes, token: str
) -> SourceTrial:
    """As `headrace.conformance.sources.new_source_trial`, with the source in this process."""
    return _Source(check, command, spec, SourceGateway(trace, changes), work, trace, changes, token)


def new_sink_trial(
    check: str, command: Sequence[str], spec: SinkSpec, work: Path, trace: Trace, changes: Changes, token: str
) -> SinkTrial:
    """As `headrace.conformance.sinks.new_sink_trial`, with the sink in this process."""
    return _Sink(check, command, spec, SinkGateway(trace, changes), work, trace, changes, token)
