"""The rights that each method, and each path of the HTTP server, requires. One without a rule is rejected."""

from collections.abc import Mapping
from enum import Enum


class Right(Enum):
    """A right of a token. The value is the key that grants it in the configuration."""

    SEND = "sources"
    SERVE_SINK = "sinks"
    RUN = "pipelines"
    READ = "reads"
    WRITE = "writes"
    ADMINISTER = "admin"
    CONTROL = "control"
    PEEK = "peek"
    SUPERVISE = "supervise"


_V1 = "/headrace.protocol.v1."

RULES: Mapping[str, frozenset[Right]] = {
    f"{_V1}SourceService/Ingest": frozenset({Right.SEND}),
    f"{_V1}SinkService/Attach": frozenset({Right.SERVE_SINK}),
    f"{_V1}EngineService/Attach": frozenset({Right.RUN, Right.READ}),
    f"{_V1}EngineService/Renew": frozenset({Right.RUN, Right.READ}),
    f"{_V1}EngineService/Plan": frozenset({Right.RUN, Right.READ}),
    f"{_V1}EngineService/AwaitSinks": frozenset({Right.RUN, Right.READ}),
    f"{_V1}EngineService/Fetch": frozenset({Right.RUN, Right.READ}),
    f"{_V1}EngineService/Follow": frozenset({Right.RUN, Right.READ}),
    f"{_V1}EngineService/ReportBatches": frozenset({Right.RUN, Right.READ}),
    f"{_V1}EngineService/Heartbeat": frozenset({Right.RUN, Right.READ}),
    f"{_V1}EngineService/Detach": frozenset({Right.RUN, Right.READ}),
    f"{_V1}EngineService/Deliver": frozenset({Right.RUN, Right.WRITE}),
    f"{_V1}EngineService/DeliverAtOnce": frozenset({Right.RUN, Right.WRITE}),
    f"{_V1}EngineService/Vote": frozenset({Right.RUN, Right.WRITE}),
    f"{_V1}EngineService/ReportCommits": frozenset({Right.RUN, Right.WRITE}),
    f"{_V1}AdminService/GetStatus": frozenset({Right.ADMINISTER}),
    f"{_V1}AdminService/ListBatches": frozenset({Right.ADMINISTER}),
    f"{_V1}AdminService/ListEvents": frozenset({Right.ADMINISTER}),
    f"{_V1}AdminService/LocateMessage": frozenset({Right.ADMINISTER}),
    f"{_V1}AdminService/ForgetPipeline": frozenset({Right.CONTROL}),
    f"{_V1}AdminService/ForgetStream": frozenset({Right.CONTROL}),
    f"{_V1}AdminService/Pause": frozenset({Right.CONTROL}),
    f"{_V1}AdminService/Drain": frozenset({Right.CONTROL}),
    f"{_V1}AdminService/Reload": frozenset({Right.CONTROL}),
    f"{_V1}AdminService/Resume": frozenset({Right.CONTROL}),
    f"{_V1}AdminService/RestartConnector": frozenset({Right.CONTROL}),
    f"{_V1}AdminService/ReplayDeadLetters": frozenset({Right.CONTROL}),
    f"{_V1}AdminService/ReadLog": frozenset({Right.CONTROL}),
    f"{_V1}AdminService/Supervise": frozenset({Right.SUPERVISE}),
    f"{_V1}AdminService/Peek": frozenset({Right.PEEK}),
    f"{_V1}AdminService/ListDeadLetters": frozenset({Right.PEEK}),
    # Any token may list the gateway's services.
    "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo": frozenset(),
}
"""The rights that a caller must have for at least one name; the services check which names it may use."""

EVENTS = "/api/v1/events"
EVENT_LOG = "/api/v1/event-log"
HISTORY = "/api/v1/history"
PEEK = "/api/v1/streams/{name:path}/peek"
DEAD_LETTERS = "/api/v1/dead-letters"
RESTART = "/api/v1/connectors/restart"
REPLAY = "/api/v1/dead-letters/replay"
PROCESS_LOG = "/api/v1/processes/log"
ME = "/api/v1/me"
SIGN_IN = "/api/v1/sign-in"
SIGN_OUT = "/api/v1/sign-out"
CONSOLE = "/"
ASSETS = "/assets/{name}"

PATHS: Mapping[str, frozenset[Right]] = {
    "/healthz": frozenset(),
    "/readyz": frozenset(),
    "/metrics": frozenset({Right.ADMINISTER}),
    "/api/v1/openapi.json": frozenset(),
    "/api/v1/problems": frozenset({Right.ADMINISTER}),
    "/api/v1/status": frozenset({Right.ADMINISTER}),
    EVENTS: frozenset({Right.ADMINISTER}),
    "/api/v1/gateway": frozenset({Right.ADMINISTER}),
    "/api/v1/streams": frozenset({Right.ADMINISTER}),
    PEEK: frozenset({Right.PEEK}),
    "/api/v1/streams/{name:path}": frozenset({Right.ADMINISTER}),
    "/api/v1/sessions": frozenset({Right.ADMINISTER}),
    "/api/v1/pipelines": frozenset({Right.ADMINISTER}),
    "/api/v1/pipelines/{name:path}/batches": frozenset({Right.ADMINISTER}),
    "/api/v1/pipelines/{name:path}": frozenset({Right.ADMINISTER}),
    "/api/v1/sinks": frozenset({Right.ADMINISTER}),
    "/api/v1/sinks/{name:path}": frozenset({Right.ADMINISTER}),
    "/api/v1/sink-sessions": frozenset({Right.ADMINISTER}),
    EVENT_LOG: frozenset({Right.ADMINISTER}),
    HISTORY: frozenset({Right.ADMINISTER}),
    DEAD_LETTERS: frozenset({Right.PEEK}),
    "/api/v1/unacknowledged": frozenset({Right.ADMINISTER}),
}
"""The rights that each path of the HTTP server requires, as for `RULES`. A path without rights requires no token either."""

CHANGES: Mapping[str, frozenset[Right]] = {
    **{
        f"/api/v1/{parts}/{change}": frozenset({Right.CONTROL})
        for parts in ("streams", "connectors", "pipelines", "sinks")
        for change in ("pause", "resume")
    },
    RESTART: frozenset({Right.CONTROL}),
    REPLAY: frozenset({Right.CONTROL}),
    PROCESS_LOG: frozenset({Right.CONTROL}),
    "/api/v1/streams/forget": frozenset({Right.CONTROL}),
    "/api/v1/gateway/drain": frozenset({Right.CONTROL}),
    "/api/v1/gateway/reload": frozenset({Right.CONTROL}),
    "/api/v1/pipelines/forget": frozenset({Right.CONTROL}),
}
"""The rights that each path requires to which requests that change something are posted."""

OPEN_PATHS = frozenset({ME, SIGN_IN, SIGN_OUT, CONSOLE, ASSETS})
"""Paths that require no right: the console's files, and signing in."""

OPEN_METHODS = frozenset(f"/grpc.health.v1.Health/{method}" for method in ("Check", "Watch", "List"))
"""Methods that require no token, for probes; they reveal only SERVING or NOT_SERVING."""
