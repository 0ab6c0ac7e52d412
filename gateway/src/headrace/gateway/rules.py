"""The rights that each method requires. A method without a rule is rejected."""

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


_V1 = "/headrace.protocol.v1."

RULES: Mapping[str, frozenset[Right]] = {
    f"{_V1}SourceService/Ingest": frozenset({Right.SEND}),
    f"{_V1}SinkService/Attach": frozenset({Right.SERVE_SINK}),
    f"{_V1}EngineService/Attach": frozenset({Right.RUN, Right.READ}),
    f"{_V1}EngineService/Renew": frozenset({Right.RUN, Right.READ}),
    f"{_V1}EngineService/Plan": frozenset({Right.RUN, Right.READ}),
    f"{_V1}EngineService/AwaitSinks": frozenset({Right.RUN, Right.READ}),
    f"{_V1}EngineService/Fetch": frozenset({Right.RUN, Right.READ}),
    f"{_V1}EngineService/Detach": frozenset({Right.RUN, Right.READ}),
    f"{_V1}EngineService/Deliver": frozenset({Right.RUN, Right.WRITE}),
    f"{_V1}EngineService/Vote": frozenset({Right.RUN, Right.WRITE}),
    f"{_V1}EngineService/Settle": frozenset({Right.RUN, Right.WRITE}),
    f"{_V1}AdminService/GetStatus": frozenset({Right.ADMINISTER}),
    f"{_V1}AdminService/ForgetPipeline": frozenset({Right.ADMINISTER}),
    # Any token may list the gateway's services.
    "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo": frozenset(),
}
"""The rights that a caller must have for at least one name; the services check which names it may use."""

OPEN_METHODS = frozenset(f"/grpc.health.v1.Health/{method}" for method in ("Check", "Watch", "List"))
"""Methods that require no token, for probes; they reveal only SERVING or NOT_SERVING."""
