"""A bundled connector and the system behind it, where the test's own process makes and reads what a check needs."""

import asyncio
import base64
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.conformance.forked import COMMAND, forks
from tests.conformance.kit import PATIENT, Judged, judged_here

from headrace.conformance.core.changes import Changes
from headrace.conformance.core.spec import SinkSpec, SourceSpec, Spec
from headrace.conformance.core.trace import Trace
from headrace.conformance.runner import AnyCheck, AnyTrial
from headrace.conformance.sinks import SINK_CHECKS
from headrace.conformance.sinks.session import SinkGateway
from headrace.conformance.sinks.trial import SinkTrial
from headrace.conformance.sources import SOURCE_CHECKS
from headrace.conformance.sources.gateway import SourceGateway
from headrace.conformance.sources.trial import SourceTrial
from headrace.connectors import CONNECTORS

CLOSE = {"close", "close-refused", "close-last"}
"""Checks that need `closed`, a text that no bundled connector writes."""
COMMON = {
    "report": True,
    "heartbeat": True,
    "deadlines": PATIENT,
    # The variables of the environment are enough. An option may be that for the certificates of the connector's broker.
    "tls": "",
    "mutual_tls": "",
}
"""What every bundled connector can do."""
SOURCE = COMMON | {"credit_request": True, "backlog": True, "pace": True}
"""What every bundled source can do, too."""


@dataclass(frozen=True)
class Kind:
    """What judges connectors of a kind."""

    spec: type[Spec]
    declared: Mapping[str, object]
    checks: Sequence[AnyCheck]
    trial: type[AnyTrial]
    gateway: Callable[[Trace, Changes], Any]


SOURCES = Kind(SourceSpec, SOURCE, SOURCE_CHECKS, SourceTrial, SourceGateway)
SINKS = Kind(SinkSpec, COMMON, SINK_CHECKS, SinkTrial, SinkGateway)
ARGUMENTS = {"setup": "{check}", "produce": "{check} {count} {bytes}", "lose": "{check}", "read": "{check}"}

Command = Callable[..., str | None]


def values(found: Iterable[bytes | None]) -> str:
    """Messages, as the specification's `read` prints them."""
    encoded = (None if value is None else base64.b64encode(value).decode() for value in found)
    return "".join(json.dumps({"value": None} if text is None else {"value_base64": text}) + "\n" for text in encoded)


def judge(
    kind: str,
    connector: Sequence[str],
    declared: Mapping[str, object],
    commands: Mapping[str, Command],
    jobs: int = 5,
) -> Judged:
    """Runs all checks of the kit on a bundled connector.

    Args:
        kind: `source` or `sink`.
        connector: Its name and options.
        declared: Its abilities.
        commands: What to call for commands of the specification, one at a time; each is given the name of the check, and
            `produce` a number of messages and of bytes, too.
        jobs: How many checks to run at a time.
    """
    played = SOURCES if kind == "source" else SINKS
    asked = {name: ARGUMENTS[name] for name in commands}
    spec = played.spec.model_validate({**played.declared, **declared, **asked})
    module = next(known.module for known in CONNECTORS if known.name == connector[0]).partition(":")[0]

    async def run() -> Judged:
        async with forks(module) as forked:
            trial = _calling(played.trial, commands, forked.start)

            def new_trial(check: str, work: Path, trace: Trace, changes: Changes, token: str) -> AnyTrial:
                gateway = played.gateway(trace, changes)
                return trial(check, (*COMMAND, *connector), spec, gateway, work, trace, changes, token)

            return await judged_here(played.checks, spec, new_trial, jobs)

    return asyncio.run(run())


def _calling(base: type[AnyTrial], commands: Mapping[str, Command], launch: Callable[..., Any]) -> type[AnyTrial]:
    """A trial that starts its connector, and runs the commands of its specification, in its own way."""
    one_at_a_time = asyncio.Lock()

    class Calling(base):  # type: ignore[misc,valid-type]
        _launch = staticmethod(launch)

        async def run(self, name: str, command: str, **given: object) -> bytes:
            if name not in commands:
                return await super().run(name, command, **given)
            arguments = self._filled(command, {key: str(value) for key, value in given.items()})
            self.trace.event(f"{name}: {arguments}")
            async with one_at_a_time:
                return (await asyncio.to_thread(commands[name], *arguments.split()) or "").encode()

    return Calling
