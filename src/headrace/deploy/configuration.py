"""Reads a deployment file: a gateway, connectors and an application."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self

from pydantic import Field, field_validator, model_validator

from headrace.configuration import ConfigurationError, ConfigurationFile, Flag
from headrace.connectors import Parameters
from headrace.connectors.configuration import Configured, GatewayTable, take_connector
from headrace.contract.names import is_name

if TYPE_CHECKING:
    from headrace.gateway import Config

GATEWAY, PIPELINE = "gateway", "pipeline"
"""The names of these two processes, reserved: no connector may use them."""


class GatewayOptions(Parameters):
    """The table `[gateway]`: the options of `headrace gateway`."""

    config: Path | None = Field(default=None, description="The gateway's configuration file; the options below override it.")
    listen: str | None = Field(default=None, description="Where to listen; port 0 picks a free one.")
    insecure: bool = Field(default=False, description="Allow listening without TLS where others can reach it.")
    tls_cert: Path | None = Field(default=None, description="PEM: the gateway's certificate.")
    tls_key: Path | None = Field(default=None, description="PEM: its key.")
    tls_client_ca: Path | None = Field(default=None, description="PEM: require client certificates signed by this authority.")
    buffer_bytes: int | str | None = Field(default=None, description="Buffer for frames of all sessions.")
    max_frame_bytes: int | str | None = Field(default=None, description="The largest frame accepted.")
    max_sessions: int | None = Field(default=None, description="Maximum number of concurrent sessions.")
    drain_timeout_ms: int | None = Field(default=None, description="Time to drain messages in flight when stopping.")
    http_listen: str | None = Field(default=None, description="Where to serve HTTP; off for nowhere.")
    log_format: str | None = Field(default=None, description="auto, json or console.")
    log_level: str | None = Field(default=None, description="debug, info, warning or error.")


class PipelineOptions(Parameters):
    """The table `[pipeline]`: the options of `headrace run`."""

    app: str = Field(description="The application: app.py, or app.py:name.")
    checkpoint: str | None = Field(default=None, description="Where positions and states are kept; checkpoints/NAME if unset.")
    shared_checkpoint: bool = Field(default=False, description="The checkpoint is on a file system that all cluster nodes mount.")
    master: str | None = Field(default=None, description="Spark master URL; spark-submit's, else local[*], if unset.")
    parallelism: int | None = Field(default=None, ge=1, description="Number of key partitions of a new checkpoint.")
    available_now: bool = Field(default=False, description="Process what exists now, then exit.")
    real_time: bool = Field(default=False, description="Process messages as they arrive, in the driver.")
    trigger_interval: str | None = Field(default=None, description="Interval between micro-batches: 500ms, 5s, 1m.")
    worker_memory: str | None = Field(default=None, description="Memory for states in each Python worker; 1gb if unset.")
    finish: bool | None = Field(default=None, description="Close all windows once all streams end; unset: with available_now.")
    drop_states: list[str] = Field(default=[], description="Removed steps whose states are dropped.")
    migrate_states: list[str] = Field(default=[], description="Changed steps that keep their states.")
    verbose: bool = Field(default=False, description="Include Spark's log.")
    options: dict[str, str] = Field(default={}, description="Options of the source and the sink.")
    conf: dict[str, str] = Field(default={}, description="Spark settings.")
    gateway: GatewayTable = Field(default_factory=GatewayTable, description="How it reaches the gateway.")

    @model_validator(mode="after")
    def _bounded_or_not(self) -> Self:
        if self.available_now and self.trigger_interval is not None:
            raise ValueError(
                "available_now and trigger_interval cannot be combined: a bounded run starts each micro-batch immediately"
            )
        if self.available_now and self.real_time:
            raise ValueError("available_now and real_time cannot be combined: a bounded run only reads what exists")
        return self

    @field_validator("options", "conf", mode="before")
    @classmethod
    def _as_text(cls, value: Any) -> Any:
        """Spark settings are strings; this also accepts TOML numbers and booleans."""
        return {name: _text(one) for name, one in value.items()} if isinstance(value, dict) else value


class _Top(Parameters):
    """The top-level keys of the file."""

    folder: Path | None = None
    log_format: Literal["console", "json"] | None = None


@dataclass(frozen=True)
class Deployment:
    """A deployment.

    Attributes:
        path: Its file, an absolute path.
        folder: Where its processes write their logs.
        gateway: The gateway.
        connectors: The connectors by name.
        pipeline: The application; None if it runs elsewhere.
        speaks_tls: Whether the gateway speaks TLS.
        log_format: The format in which the supervisor and its processes log; None for what each does by default.
    """

    path: Path
    folder: Path
    gateway: GatewayOptions
    connectors: Mapping[str, Configured]
    pipeline: PipelineOptions | None
    speaks_tls: bool
    log_format: str | None


def load_deployment(path: Path, environ: Mapping[str, str] = os.environ) -> Deployment:
    """Reads a deployment file.

    Raises:
        ConfigurationError: The file is invalid; the error lists every problem with its line.
        ConnectorUnavailable: A connector cannot be used on this machine.
    """
    reading = ConfigurationFile(path, environ)
    tables = (GATEWAY, "connectors", PIPELINE)
    top = reading.take(_Top, {name: value for name, value in reading.table().items() if name not in tables}, known=tables)
    gateway = reading.take(GatewayOptions, reading.table((GATEWAY,)), (GATEWAY,))
    connectors = {name: _connector(reading, name) for name in reading.names(("connectors",))}
    pipeline = _pipeline(reading) if PIPELINE in reading.names() else None
    if not connectors and PIPELINE not in reading.names():
        reading.report((), "nothing to run: add a table [connectors.NAME] or [pipeline]")
    speaks_tls = gateway is not None and _speaks_tls(reading, gateway)
    reading.check()
    assert top is not None
    assert gateway is not None
    found = {name: configured for name, configured in connectors.items() if configured is not None}
    whole = path.absolute()
    return Deployment(whole, _folder(whole, top), gateway, found, pipeline, speaks_tls, top.log_format)


def run_folder(path: Path, environ: Mapping[str, str] = os.environ) -> Path:
    """Returns the folder of a deployment, without checking the rest of its file, whose variables may be set elsewhere only.

    Raises:
        ConfigurationError: The file cannot be read, or its key `folder` is invalid.
    """
    reading = ConfigurationFile(path, environ)
    top = reading.take(_Top, {"folder": reading.value(("folder",))})
    reading.check()
    assert top is not None
    return _folder(path.absolute(), top)


def _folder(path: Path, top: _Top) -> Path:
    return top.folder or path.with_suffix(".run")


def _connector(reading: ConfigurationFile, name: str) -> Configured | None:
    key = ("connectors", name)
    if not is_name(name):
        reading.report(key, "a connector's name may contain letters, digits and ._- only")
    elif name in (GATEWAY, PIPELINE):
        reading.report(key, f"the name {name} is reserved; rename the connector")
    return take_connector(reading, key, name)


def _pipeline(reading: ConfigurationFile) -> PipelineOptions | None:
    pipeline = reading.take(PipelineOptions, reading.table((PIPELINE,)), (PIPELINE,))
    if pipeline is not None:
        file = reading.folder / pipeline.app.partition(":")[0]
        if not file.is_file():
            reading.report((PIPELINE, "app"), f"there is no file {file}")
    return pipeline


def _speaks_tls(reading: ConfigurationFile, options: GatewayOptions) -> bool:
    """Loads the gateway's configuration as the gateway will, and reports its problems. Returns whether it uses TLS."""
    from headrace.gateway import OPTION_KEYS

    try:
        return gateway_config(options).tls is not None
    except ConfigurationError as error:
        for problem in error.problems:
            if problem.place in OPTION_KEYS:
                reading.report((GATEWAY, problem.place), problem.message)
            else:
                reading.report((GATEWAY, "config") if options.config is not None else (GATEWAY,), str(problem))
        return False


def gateway_config(options: GatewayOptions) -> "Config":
    """Loads the gateway's configuration, with the options of its table, as the gateway will.

    Raises:
        ConfigurationError: It is invalid.
    """
    from headrace.gateway import OPTION_KEYS, load_config

    given = {name: getattr(options, name) for name in OPTION_KEYS if getattr(options, name) not in (None, False)}
    flags = {
        OPTION_KEYS[name]: Flag(name, str(value.absolute()) if isinstance(value, Path) else value)
        for name, value in given.items()
    }
    return load_config(options.config, flags)


def _text(value: object) -> object:
    if isinstance(value, bool):
        return str(value).lower()
    return str(value) if isinstance(value, int | float) else value
