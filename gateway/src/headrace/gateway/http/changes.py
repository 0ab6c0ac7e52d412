"""The paths of the API that change something. Each takes a JSON object, and makes the change as AdminService does."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from typing_extensions import TypedDict

from headrace.contract import clock
from headrace.gateway.core import Gateway
from headrace.gateway.core.control import (
    Caller,
    drain,
    drain_progress,
    forget_pipeline,
    forget_stream,
    pause,
    read_log,
    reload,
    replay_dead_letters,
    restart_connector,
    resume,
)
from headrace.gateway.core.state import Replay
from headrace.gateway.core.streams import PartKind
from headrace.gateway.http.callers import Callers
from headrace.gateway.http.guard import guarded_change
from headrace.gateway.rules import PROCESS_LOG, REPLAY, RESTART
from headrace.gateway_status import PauseDocument

_API = "/api/v1"


class Request(BaseModel):
    """A body. Unknown fields are refused: a typing error must not change something else."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class ForgetPipelineRequest(Request):
    """Names a pipeline to forget; with `force`, also while it is attached."""

    name: str
    force: bool = False


class ForgottenDocument(TypedDict):
    """The result of forgetting a stream. Not yet, if pipelines have yet to read the rest or to drop it from their checkpoints."""

    name: str
    forgotten: bool


class NameRequest(Request):
    """Names a part."""

    name: str


class DrainRequest(Request):
    """How long sessions may take to finish."""

    timeout_ms: int | None = None


class DrainDocument(TypedDict):
    """The rest of a drain. Request it again to learn of its progress."""

    sessions: int
    sink_sessions: int
    unacknowledged_messages: int
    done: bool


class RestartRequest(Request):
    """Names a connector of a deployment; the deployment may be null if only one has such a connector."""

    name: str
    deployment: str | None = None
    timeout_ms: int | None = None


class RestartDocument(TypedDict):
    """A connector that was restarted. The fields about the process before are null if that was not running."""

    name: str
    deployment: str
    state: Literal["runs", "ended"]
    pid: int
    stopped_pid: int | None
    stopped_exit_code: int | None
    duration_ms: int


class LogRequest(Request):
    """Names a process of a deployment; the deployment may be null if only one has such a process."""

    name: str
    deployment: str | None = None
    lines: int = 100
    timeout_ms: int | None = None


class LogDocument(TypedDict):
    """The last lines of the log of a process, the newest last, and where the log is on the supervisor's machine."""

    name: str
    deployment: str
    path: str
    lines: list[str]


class ReplayRequest(Request):
    """Names the sink that has taken dead letters, and the source under whose name they are sent again.

    Without `refused_by`, all are. The deployment may be null if only one can replay them.
    """

    sink: str
    source: str
    refused_by: str | None = None
    deployment: str | None = None
    timeout_ms: int | None = None


class ReplayDocument(TypedDict):
    """A replay that has ended: all is acknowledged. The connector is the one that has written the dead letters."""

    sink: str
    source: str
    deployment: str
    connector: str
    pid: int
    duration_ms: int


class ReloadRequest(Request):
    """An empty object."""


class ReloadDocument(TypedDict):
    """The changes, a line each."""

    changes: list[str]


class PausedDocument(TypedDict):
    """The pause that is now in effect, and whether it is new."""

    paused: PauseDocument
    changed: bool


class ResumedDocument(TypedDict):
    """Whether there was a pause. Now there is none."""

    changed: bool


@dataclass(frozen=True, slots=True)
class Change:
    """The change that a path makes.

    Attributes:
        summary: Its effect.
        request: The model of the body.
        answer: The type of the answer.
        make: Makes the change, and returns the answer.
        takes_long: Whether it waits for others, as long as the request permits.
    """

    summary: str
    request: type[Request]
    answer: Any
    make: Callable[[Gateway, Caller, Any], Awaitable[Mapping[str, Any]]]
    takes_long: bool = False


async def _forget_pipeline(gateway: Gateway, caller: Caller, request: ForgetPipelineRequest) -> ForgottenDocument:
    forget_pipeline(gateway, caller, request.name, force=request.force)
    return {"name": request.name, "forgotten": True}


async def _forget_stream(gateway: Gateway, caller: Caller, request: NameRequest) -> ForgottenDocument:
    return {"name": request.name, "forgotten": forget_stream(gateway, caller, request.name)}


async def _drain(gateway: Gateway, caller: Caller, request: DrainRequest) -> DrainDocument:
    if gateway.drain_task is None:
        drain(gateway, caller, request.timeout_ms)
    left = drain_progress(gateway)
    return {
        "sessions": left.sessions,
        "sink_sessions": left.sink_sessions,
        "unacknowledged_messages": left.unacknowledged_messages,
        "done": left.done,
    }


async def _restart(gateway: Gateway, caller: Caller, request: RestartRequest) -> RestartDocument:
    answer = await restart_connector(gateway, caller, request.name, request.deployment or "", request.timeout_ms)
    made = answer.restarted
    return {
        "name": request.name,
        "deployment": answer.deployment,
        "state": "ended" if made.ended else "runs",
        "pid": made.pid,
        "stopped_pid": made.stopped_pid if made.HasField("stopped_pid") else None,
        "stopped_exit_code": made.stopped_exit_code if made.HasField("stopped_exit_code") else None,
        "duration_ms": made.duration_ms,
    }


async def _log(gateway: Gateway, caller: Caller, request: LogRequest) -> LogDocument:
    answer = await read_log(gateway, caller, request.name, request.deployment or "", request.lines, request.timeout_ms)
    return {"name": request.name, "deployment": answer.deployment, "path": answer.log.path, "lines": list(answer.log.lines)}


async def _replay(gateway: Gateway, caller: Caller, request: ReplayRequest) -> ReplayDocument:
    replay = Replay(request.source, request.refused_by or "")
    answer = await replay_dead_letters(gateway, caller, request.sink, replay, request.deployment or "", request.timeout_ms)
    return {
        "sink": request.sink,
        "source": request.source,
        "deployment": answer.deployment,
        "connector": answer.connector,
        "pid": answer.replayed.pid,
        "duration_ms": answer.replayed.duration_ms,
    }


async def _reload(gateway: Gateway, caller: Caller, request: Request) -> ReloadDocument:
    return {"changes": reload(gateway, caller)}


def _pausing(kind: PartKind) -> Change:
    async def make(gateway: Gateway, caller: Caller, request: NameRequest) -> PausedDocument:
        in_effect, changed = pause(gateway, caller, kind, request.name)
        age_ms = int((clock.monotonic() - in_effect.since) * 1000)
        return {"paused": {"part": in_effect.part, "by": in_effect.by, "age_ms": age_ms}, "changed": changed}

    return Change(f"Pauses a {kind}.", NameRequest, PausedDocument, make)


def _resuming(kind: PartKind) -> Change:
    async def make(gateway: Gateway, caller: Caller, request: NameRequest) -> ResumedDocument:
        return {"changed": resume(gateway, caller, kind, request.name)}

    return Change(f"Ends the pause of a {kind}.", NameRequest, ResumedDocument, make)


CHANGES_MADE: Mapping[str, Change] = {
    **{f"{_API}/{kind}s/pause": _pausing(kind) for kind in PartKind},
    **{f"{_API}/{kind}s/resume": _resuming(kind) for kind in PartKind},
    RESTART: Change(
        "Restarts a connector of a deployment, and waits for it.", RestartRequest, RestartDocument, _restart, takes_long=True
    ),
    REPLAY: Change(
        "Replays the dead letters of a sink, and waits until all are acknowledged.",
        ReplayRequest,
        ReplayDocument,
        _replay,
        takes_long=True,
    ),
    PROCESS_LOG: Change("Reads the last lines of the log of a process.", LogRequest, LogDocument, _log, takes_long=True),
    f"{_API}/gateway/drain": Change("Begins to drain, and says what is left.", DrainRequest, DrainDocument, _drain),
    f"{_API}/gateway/reload": Change("Reads the configuration again.", ReloadRequest, ReloadDocument, _reload),
    f"{_API}/streams/forget": Change("Forgets a stream that will not continue.", NameRequest, ForgottenDocument, _forget_stream),
    f"{_API}/pipelines/forget": Change(
        "Forgets a pipeline that will not come back.", ForgetPipelineRequest, ForgottenDocument, _forget_pipeline
    ),
}
"""The changes by the paths to which they are posted."""


def change_routes(gateway: Gateway, callers: Callers) -> list[Route]:
    """Returns the routes of the paths that change something."""

    def route(path: str, change: Change) -> Route:
        async def make(caller: Caller, body: Request) -> Response:
            return JSONResponse(await change.make(gateway, caller, body))

        endpoint = guarded_change(path, change.request, make, callers, takes_long=change.takes_long)
        return Route(path, endpoint, methods=["POST"])

    return [route(path, change) for path, change in CHANGES_MADE.items()]
