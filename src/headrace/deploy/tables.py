"""The tables of a deployment's file."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Self

from pydantic import BeforeValidator, Field, field_validator, model_validator

from headrace.connectors import Parameters
from headrace.connectors.configuration import GatewayTable
from headrace.contract.names import is_name, is_stream_pattern
from headrace.contract.settings import OF_GATEWAY, OF_QUERY, OF_RUN, VARIABLES, clash

if TYPE_CHECKING:
    pass


def _text(value: object) -> object:
    if isinstance(value, bool):
        return str(value).lower()
    return str(value) if isinstance(value, int | float) else value


def _texts(value: Any) -> Any:
    return {name: _text(one) for name, one in value.items()} if isinstance(value, dict) else value


_Texts = Annotated[dict[str, str], BeforeValidator(_texts)]
"""Spark settings are strings; TOML numbers and booleans are accepted too."""


class GatewayOptions(Parameters):
    """The table `[gateway]`: the options of `headrace gateway`."""

    config: Path | None = Field(default=None, description=OF_GATEWAY["config"].description)
    listen: str | None = Field(default=None, description=OF_GATEWAY["listen"].description)
    insecure: bool = Field(default=False, description=OF_GATEWAY["insecure"].description)
    tls_cert: Path | None = Field(default=None, description=OF_GATEWAY["tls_cert"].description)
    tls_key: Path | None = Field(default=None, description=OF_GATEWAY["tls_key"].description)
    tls_client_ca: Path | None = Field(default=None, description=OF_GATEWAY["tls_client_ca"].description)
    buffer_bytes: int | str | None = Field(default=None, description=OF_GATEWAY["buffer_bytes"].description)
    max_frame_bytes: int | str | None = Field(default=None, description=OF_GATEWAY["max_frame_bytes"].description)
    max_sessions: int | None = Field(default=None, description=OF_GATEWAY["max_sessions"].description)
    drain_timeout_seconds: float | str | None = Field(default=None, description=OF_GATEWAY["drain_timeout_seconds"].description)
    http_listen: str | None = Field(default=None, description=OF_GATEWAY["http_listen"].description)
    log_format: str | None = Field(default=None, description=OF_GATEWAY["log_format"].description)
    log_level: str | None = Field(default=None, description=OF_GATEWAY["log_level"].description)


class PipelineOptions(Parameters):
    """The table `[pipeline]`, or `[application.NAME]`: the options of `headrace run`."""

    app: str = Field(description="The application: app.py, or app.py:name.")
    checkpoint: str | None = Field(default=None, description=OF_RUN["checkpoint"].description)
    shared_checkpoint: bool = Field(default=False, description=OF_RUN["shared_checkpoint"].description)
    master: str | None = Field(default=None, description=OF_RUN["master"].description)
    parallelism: int | None = Field(default=None, ge=1, description=OF_RUN["parallelism"].description)
    available_now: bool = Field(default=False, description=OF_RUN["available_now"].description)
    real_time: bool = Field(default=False, description=OF_RUN["real_time"].description)
    real_time_workers: int | None = Field(default=None, ge=1, description=OF_RUN["real_time_workers"].description)
    trigger_interval: str | None = Field(default=None, description=OF_RUN["trigger_interval"].description)
    worker_memory: str | None = Field(default=None, description=OF_RUN["worker_memory"].description)
    finish: bool | None = Field(default=None, description=OF_RUN["finish"].description)
    history: list[str] = Field(default=[], description=OF_RUN["history"].description)
    history_columns: _Texts = Field(default={}, description=OF_RUN["history_columns"].description)
    until: str | None = Field(default=None, description=OF_RUN["until"].description)
    then_live: bool = Field(default=False, description=OF_RUN["then_live"].description)
    drop_states: list[str] = Field(default=[], description=OF_RUN["drop_states"].description)
    migrate_states: list[str] = Field(default=[], description=OF_RUN["migrate_states"].description)
    verbose: bool = Field(default=False, description=OF_RUN["verbose"].description)
    options: _Texts = Field(default={}, description=OF_RUN["options"].description)
    conf: _Texts = Field(default={}, description=OF_RUN["conf"].description)
    variables: list[str] = Field(default=[], description=VARIABLES.description)
    gateway: GatewayTable = Field(default_factory=GatewayTable, description="How it reaches the gateway.")

    @model_validator(mode="after")
    def _bounded_or_not(self) -> Self:
        clashes = clash(
            available_now=self.available_now,
            trigger_interval=self.trigger_interval,
            real_time=self.real_time,
            real_time_workers=self.real_time_workers,
            history=bool(self.history),
            until=self.until,
            then_live=self.then_live,
        )
        if clashes is not None:
            raise ValueError(clashes)
        return self


class QueryOptions(Parameters):
    """The table `[query.NAME]`: a Spark program of the user, such as a script with `format("headrace")`."""

    program: str = Field(description=OF_QUERY["program"].description)
    args: list[str] = Field(default=[], description=OF_QUERY["args"].description)
    pipelines: list[str] = Field(default=[], description=OF_QUERY["pipelines"].description)
    reads: list[str] = Field(default=[], description=OF_QUERY["reads"].description)
    master: str | None = Field(default=None, description=OF_QUERY["master"].description)
    available_now: bool = Field(default=False, description=OF_QUERY["available_now"].description)
    conf: _Texts = Field(default={}, description=OF_QUERY["conf"].description)
    variables: list[str] = Field(default=[], description=OF_QUERY["variables"].description)
    gateway: GatewayTable = Field(default_factory=GatewayTable, description="The token in its environment, or another gateway.")

    @field_validator("pipelines")
    @classmethod
    def _names(cls, value: list[str]) -> list[str]:
        for name in value:
            if not is_name(name):
                raise ValueError(f"{name!r} is no name of a pipeline: it may contain letters, digits and ._- only")
        return value

    @field_validator("reads")
    @classmethod
    def _patterns(cls, value: list[str]) -> list[str]:
        for pattern in value:
            if not is_stream_pattern(pattern):
                raise ValueError(f"{pattern!r} is no pattern of streams; write source/partition, such as orders/*")
        return value
