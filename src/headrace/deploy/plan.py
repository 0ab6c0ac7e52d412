"""The processes of a deployment, and how to recognise each of them at the gateway."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from headrace.connectors.configuration import Configured
from headrace.connectors.file import FileSinkParameters, SinkFormat
from headrace.contract.names import SUPERVISOR
from headrace.deploy.commands import (
    connector_command,
    gateway_command,
    pipeline_command,
    query_command,
    replay_command,
    spark_settings,
)
from headrace.deploy.configuration import GATEWAY, Deployment
from headrace.deploy.environment import TOKEN, descriptors, environment, may_read_status, secret_of
from headrace.deploy.gateway import Known
from headrace.deploy.graph import ApplicationGraph
from headrace.deploy.status import Kind
from headrace.terminal import counted

_MAX_NAMES = 100
"""Pipelines, and patterns of streams, that the gateway takes of a process."""


@dataclass(frozen=True, slots=True)
class Listed:
    """A connector, as a deployment describes it to its gateway. A field that does not apply is empty.

    Attributes:
        instance: Its instance.
        replays: The sink whose dead letters can be replayed.
        source: The source whose streams it sends to the deployment's gateway.
        sink: The sink that it serves there.
        failure: Why its process does not run.
    """

    instance: str
    replays: str = ""
    source: str = ""
    sink: str = ""
    failure: str = ""


@dataclass(frozen=True, slots=True)
class Replaying:
    """How the dead letters are replayed that a connector has written.

    Attributes:
        sink: The sink that they were delivered to.
        command: Returns the command line, given the gateway's address, the source, and whose dead letters; None for all.
        environ: Its environment.
        inherits: The file descriptors that it inherits.
    """

    sink: str
    command: Callable[[str, str, str | None], list[str]]
    environ: Mapping[str, str]
    inherits: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Role:
    """A process.

    Attributes:
        name: Its name, unique in the deployment.
        kind: Its kind.
        what: Which connector, or which application.
        command: Returns its command line, given the gateway's address. The gateway itself is given the address of its
            previous start, None at the first, for which the supervisor adds options that tell where it listens.
        environ: Its environment.
        is_connected: Whether the gateway knows it; None if it uses another gateway.
        detail: Returns its throughput or its problem, as the gateway reports it; empty for nothing.
        may_end: Whether it may end on its own.
    """

    name: str
    kind: Kind
    what: str
    command: Callable[[str | None], list[str]]
    environ: Mapping[str, str]
    is_connected: Callable[[Known], bool | None]
    detail: Callable[[Known], str] = lambda _: ""
    may_end: bool = False
    inherits: tuple[int, ...] = ()
    """The file descriptors that it inherits."""
    instance: str = ""
    """The instance of a connector; its name if empty."""
    replaying: Replaying | None = None
    """How its dead letters are replayed; None if it is no sink that writes any in the format that can be read."""
    pipelines: tuple[str, ...] = ()
    """The pipelines that it runs at the deployment's gateway, as far as that is known."""
    reads: tuple[str, ...] = ()
    """The patterns of the streams that these read; none if that is not known."""
    serves: str = ""
    """The source or the sink of a connector of the deployment's gateway."""
    settings: object = None
    """What the file says about it: a process whose settings have changed is restarted by a reload."""


@dataclass(frozen=True, slots=True)
class Plan:
    """All processes of a deployment.

    Attributes:
        name: The name of the deployment, and of its file in `cwd`.
        folder: Where the processes write their logs.
        cwd: Their working directory.
        gateway: The gateway; the others start once it listens.
        others: The others.
        logs_to_stderr: Whether what the processes print goes to standard error, too.
        logs_json: Whether the supervisor logs in JSON.
    """

    name: str
    folder: Path
    cwd: Path
    gateway: Role
    others: tuple[Role, ...]
    logs_to_stderr: bool = False
    logs_json: bool = False

    @property
    def log(self) -> Path:
        """The log of the supervisor itself."""
        return self.folder / f"{SUPERVISOR}.log"


def plan(deployment: Deployment, graphs: Mapping[str, ApplicationGraph]) -> Plan:
    """Plans the processes of a deployment.

    Args:
        deployment: The deployment.
        graphs: The graphs of its applications, by the names of their processes.
    """
    gateway = Role(
        GATEWAY,
        Kind.GATEWAY,
        what="",
        command=lambda listen: gateway_command(deployment, listen),
        environ=environment(deployment, GATEWAY),
        is_connected=lambda _: True,
        settings=(deployment.gateway, deployment.env_file),
    )
    others = [_connector(deployment, name, configured) for name, configured in deployment.connectors.items()]
    others += [_application(deployment, name, graphs[name]) for name in deployment.applications]
    others += [_query(deployment, name) for name in deployment.queries]
    return Plan(
        deployment.path.name,
        deployment.folder,
        deployment.path.parent,
        gateway,
        tuple(others),
        logs_to_stderr=deployment.logs == "stderr",
        logs_json=deployment.logs_json,
    )


def _connector(deployment: Deployment, name: str, configured: Configured) -> Role:
    instance = configured.instance or name
    elsewhere = configured.gateway.address is not None
    is_source = configured.connector.kind == "source"
    stream_or_sink = str(getattr(configured.parameters, configured.connector.kind))

    def is_connected(seen_at_gateway: Known) -> bool | None:
        if elsewhere:
            return None
        return instance in (seen_at_gateway.connected if is_source else seen_at_gateway.sinks.get(stream_or_sink, ()))

    def detail(seen_at_gateway: Known) -> str:
        if not is_source:
            refused = seen_at_gateway.refused.get(stream_or_sink, 0)
            return f"{counted(refused, 'message')} refused" if refused else ""
        flow = seen_at_gateway.flows.get(instance)
        if flow is None:
            return ""
        streams = counted(flow.streams, "stream")
        return flow.trouble or f"{streams}, {flow.acknowledged:,} acknowledged, lag {flow.lag:,}"

    environ = environment(deployment, name, configured.gateway)
    return Role(
        name,
        Kind.SOURCE if is_source else Kind.SINK,
        what=configured.connector.name,
        command=lambda address: connector_command(deployment, name, address or ""),
        environ=environ,
        inherits=descriptors(configured.gateway),
        is_connected=is_connected,
        detail=detail,
        may_end=is_source,
        instance=instance,
        replaying=_replaying(deployment, name, configured),
        serves="" if elsewhere else stream_or_sink,
        # Not the class of the parameters: a manifest makes a new one each time that it is read.
        settings=(
            configured.connector,
            configured.parameters.model_dump(),
            configured.instance,
            configured.gateway,
            deployment.log_format,
            environ.get(TOKEN),
        ),
    )


def _replaying(deployment: Deployment, name: str, configured: Configured) -> Replaying | None:
    """Returns how the dead letters of a connector are replayed: for the bundled file sink, in its format json."""
    parameters = configured.parameters
    if not isinstance(parameters, FileSinkParameters) or parameters.format is not SinkFormat.JSON:
        return None

    def command(address: str, source: str, refused_by: str | None) -> list[str]:
        return replay_command(configured.gateway, parameters.path, address, source, refused_by)

    return Replaying(parameters.sink, command, environment(deployment, name, configured.gateway), descriptors(configured.gateway))


def _application(deployment: Deployment, name: str, graph: ApplicationGraph) -> Role:
    options, pipeline = deployment.applications[name], graph.pipeline
    figures = may_read_status(deployment, secret_of(deployment, options.gateway))
    elsewhere = options.gateway.address is not None
    return Role(
        name,
        Kind.PIPELINE,
        what=options.app,
        command=lambda address: pipeline_command(options, address or "", figures=elsewhere or figures),
        environ=(environ := environment(deployment, name, options.gateway)),
        inherits=descriptors(options.gateway),
        is_connected=lambda known: None if elsewhere else pipeline in known.pipelines,
        may_end=options.available_now,
        settings=(
            options,
            pipeline,
            _digest(deployment, options.app.partition(":")[0]),
            deployment.log_format,
            _looked_up(deployment, name, environ),
        ),
        pipelines=() if elsewhere else (pipeline,),
        reads=() if elsewhere else tuple(graph.streams[:_MAX_NAMES]),
    )


def _query(deployment: Deployment, name: str) -> Role:
    options = deployment.queries[name]
    elsewhere = options.gateway.address is not None
    pipelines = tuple(options.pipelines)

    def is_connected(seen_at_gateway: Known) -> bool | None:
        return None if elsewhere or not pipelines else seen_at_gateway.pipelines.issuperset(pipelines)

    return Role(
        name,
        Kind.QUERY,
        what=options.program,
        command=lambda address: query_command(options, address or ""),
        environ=(environ := {**environment(deployment, name, options.gateway), **spark_settings(options)}),
        inherits=descriptors(options.gateway),
        is_connected=is_connected,
        may_end=options.available_now,
        settings=(options, _digest(deployment, options.program), deployment.log_format, _looked_up(deployment, name, environ)),
        pipelines=() if elsewhere else pipelines[:_MAX_NAMES],
        reads=() if elsewhere else tuple(options.reads[:_MAX_NAMES]),
    )


def _digest(deployment: Deployment, file: str) -> bytes | None:
    """Returns a digest of an application or a program, which is another one once its file has changed; None without the file."""
    try:
        return sha256((deployment.path.parent / file).read_bytes()).digest()
    except OSError:
        return None


def _looked_up(deployment: Deployment, name: str, environ: Mapping[str, str]) -> Mapping[str, str | None]:
    """The values of what a process itself looks up in its environment, and of its token: a change needs a restart."""
    return {variable: environ.get(variable) for variable in (*deployment.read_by[name], TOKEN)}
