"""Reads a deployment file: a gateway, connectors, applications and Spark programs."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from headrace.configuration import ConfigurationError, ConfigurationFile, Flag
from headrace.connectors import Parameters
from headrace.connectors.configuration import ENV_FILE, Configured, GatewayTable, check_token_file, take_connector
from headrace.contract.names import SUPERVISOR, is_name
from headrace.deploy.tables import GatewayOptions, PipelineOptions, QueryOptions
from headrace.logs.output import FORMAT_VARIABLE

if TYPE_CHECKING:
    from headrace.gateway import Config

GATEWAY, PIPELINE = "gateway", "pipeline"
"""The names of these two processes, reserved: no other one may use them."""
APPLICATION, QUERY = "application", "query"
"""The tables of further applications, and of Spark programs."""


class _Top(Parameters):
    """The top-level keys of the file."""

    folder: Path | None = None
    env_file: Path | None = None
    log_format: Literal["console", "json"] | None = None
    logs: Literal["files", "stderr"] = "files"


@dataclass(frozen=True)
class Deployment:
    """A deployment.

    Attributes:
        path: Its file, an absolute path.
        folder: Where its processes write their logs.
        gateway: The gateway.
        connectors: The connectors by name.
        applications: The applications by name; the table `[pipeline]` has the name `pipeline`.
        queries: The Spark programs by name.
        speaks_tls: Whether the gateway speaks TLS.
        log_format: The format in which the supervisor and its processes log; None for what each does by default.
        env_file: The file of variables; None without one.
        variables: The variables that the file contains.
        named: The variables that the deployment or the configuration of its gateway name, in texts and as `variables`.
        read_by: Those that a process itself looks up, by the name of the process.
        logs: Where what the processes print goes: into files, or to the supervisor's standard error too.
    """

    path: Path
    folder: Path
    gateway: GatewayOptions
    connectors: Mapping[str, Configured]
    applications: Mapping[str, PipelineOptions]
    queries: Mapping[str, QueryOptions]
    speaks_tls: bool
    log_format: str | None
    env_file: Path | None = None
    variables: Mapping[str, str] = field(default_factory=dict, repr=False)
    named: frozenset[str] = frozenset()
    read_by: Mapping[str, frozenset[str]] = field(default_factory=dict)
    logs: Literal["files", "stderr"] = "files"

    @property
    def files(self) -> Sequence[Path]:
        """The files that were read: its own, the one of variables and the gateway's."""
        return [path for path in (self.path, self.env_file, self.gateway.config) if path is not None]

    @property
    def programs(self) -> Sequence[Path]:
        """The files of the applications."""
        return [self.path.parent / options.app.partition(":")[0] for options in self.applications.values()]

    @property
    def logs_json(self) -> bool:
        """Whether the supervisor logs in JSON."""
        return (self.log_format or os.environ.get(FORMAT_VARIABLE)) == "json"


def load_deployment(path: Path, environ: Mapping[str, str] = os.environ) -> Deployment:
    """Reads a deployment file.

    Raises:
        ConfigurationError: The file is invalid; the error lists every problem with its line.
        ConnectorUnavailable: A connector cannot be used on this machine.
    """
    reading = ConfigurationFile(path, environ)
    env_file, variables = reading.take_env_file(ENV_FILE)
    tables = (GATEWAY, "connectors", PIPELINE, APPLICATION, QUERY)
    top = reading.take(_Top, {name: value for name, value in reading.table().items() if name not in tables}, known_keys=tables)
    gateway = reading.take(GatewayOptions, reading.table((GATEWAY,)), (GATEWAY,))
    connectors = {name: _connector(reading, name) for name in reading.names(("connectors",))}
    applications = {name: _application(reading, (APPLICATION, name)) for name in reading.names((APPLICATION,))}
    if PIPELINE in reading.names():
        applications = {PIPELINE: _application(reading, (PIPELINE,)), **applications}
    queries = {name: _query(reading, (QUERY, name)) for name in reading.names((QUERY,))}
    if not connectors and not applications and not queries:
        reading.report((), "nothing to run: add a table [connectors.NAME], [pipeline], [application.NAME] or [query.NAME]")
    _check_names(reading)
    # What else is wrong may only follow from a file of variables that cannot be read.
    if env_file is not None and not variables:
        reading.check()
    speaks_tls = gateway is not None and _speaks_tls(reading, gateway, {**environ, **variables})
    reading.check()
    assert top is not None
    assert gateway is not None
    of_gateway = _of_gateway(gateway)
    read_by = {name: reading.variables(("connectors", name)) for name in connectors}
    read_by |= {name: frozenset(one.variables) for name, one in (*applications.items(), *queries.items()) if one is not None}
    found = {name: configured for name, configured in connectors.items() if configured is not None}
    whole = path.absolute()
    return Deployment(
        whole,
        _folder(whole, top),
        gateway,
        found,
        {name: application for name, application in applications.items() if application is not None},
        {name: query for name, query in queries.items() if query is not None},
        speaks_tls,
        top.log_format,
        env_file,
        variables,
        reading.variables().union(of_gateway, *read_by.values()),
        {**read_by, GATEWAY: of_gateway},
        logs=top.logs,
    )


def run_folder(path: Path, environ: Mapping[str, str] = os.environ) -> Path:
    """Returns the folder of a deployment, without checking the rest of its file, whose variables may be set elsewhere only.

    Raises:
        ConfigurationError: The file cannot be read, or its key `folder` is invalid.
    """
    reading = ConfigurationFile(path, environ)
    if reading.variables(("folder",)) - environ.keys():
        reading.take_env_file(ENV_FILE)
    top = reading.take(_Top, {"folder": reading.value(("folder",))})
    reading.check()
    assert top is not None
    return _folder(path.absolute(), top)


def _folder(path: Path, top: _Top) -> Path:
    return top.folder or path.with_suffix(".run")


def _connector(reading: ConfigurationFile, name: str) -> Configured | None:
    key = ("connectors", name)
    return take_connector(reading, key, name)


def _check_names(reading: ConfigurationFile) -> None:
    """Reports names that are not valid, or that two processes have: each has a log of its name."""
    found: dict[str, str] = {}
    for table, what in (("connectors", "connector"), (APPLICATION, "application"), (QUERY, "query")):
        for name in reading.names((table,)):
            if not is_name(name):
                reading.report((table, name), f"the name of a process ({what}) may contain letters, digits and ._- only")
            elif name in (GATEWAY, PIPELINE, SUPERVISOR):
                reading.report((table, name), f"the name {name} is reserved; rename the {what}")
            elif name in found:
                reading.report((table, name), f"the {found[name]} {name} has the same name; rename one of them")
            found.setdefault(name, what)


def _application(reading: ConfigurationFile, key: tuple[str, ...]) -> PipelineOptions | None:
    application = reading.take(PipelineOptions, reading.table(key), key)
    if application is not None:
        _check_file(reading, (*key, "app"), application.app.partition(":")[0])
        _check_gateway(reading, key, application.gateway)
    return application


def _query(reading: ConfigurationFile, key: tuple[str, ...]) -> QueryOptions | None:
    query = reading.take(QueryOptions, reading.table(key), key)
    if query is not None:
        _check_file(reading, (*key, "program"), query.program)
        _check_gateway(reading, key, query.gateway)
    return query


def _check_gateway(reading: ConfigurationFile, key: tuple[str, ...], gateway: GatewayTable) -> None:
    """Reports what Spark could not use to reach a gateway."""
    check_token_file(reading, key, gateway)
    if gateway.tls and gateway.tls_ca is None:
        reading.report((*key, "gateway", "tls"), "tls alone is not enough for Spark: set tls_ca to the authority of the gateway")


def _check_file(reading: ConfigurationFile, key: tuple[str, ...], file: str) -> None:
    if not (reading.folder / file).is_file():
        reading.report(key, f"there is no file {reading.folder / file}")


def _of_gateway(options: GatewayOptions) -> frozenset[str]:
    """The variables that the gateway's own configuration names."""
    return frozenset() if options.config is None else ConfigurationFile(options.config).variables()


def _speaks_tls(reading: ConfigurationFile, options: GatewayOptions, environ: Mapping[str, str]) -> bool:
    """Loads the gateway's configuration as the gateway will, and reports its problems. Returns whether it uses TLS."""
    from headrace.gateway import OPTION_KEYS

    try:
        return gateway_config(options, environ).tls is not None
    except ConfigurationError as error:
        for problem in error.problems:
            if problem.place in OPTION_KEYS:
                reading.report((GATEWAY, problem.place), problem.message)
            else:
                reading.report((GATEWAY, "config") if options.config is not None else (GATEWAY,), str(problem))
        return False


def gateway_config(options: GatewayOptions, environ: Mapping[str, str] = os.environ) -> "Config":
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
    return load_config(options.config, flags, environ)
