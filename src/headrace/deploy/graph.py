"""The streams and sinks of a deployment's applications, and the ones that no connector provides."""

import contextlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from headrace.configuration import nearest
from headrace.deploy.command_output import output_of
from headrace.deploy.commands import graph_command
from headrace.deploy.configuration import Deployment
from headrace.deploy.environment import environment
from headrace.deploy.errors import CannotRun
from headrace.deploy.signals import IsStopped, never
from headrace.deploy.tables import PipelineOptions

_WITHIN_S = 120.0


@dataclass(frozen=True, slots=True)
class ApplicationGraph:
    """The shape of an application.

    Attributes:
        pipeline: The name that it has at the gateway.
        streams: The patterns of the streams that it reads.
        sinks: The sinks that it writes to.
        steps: One line per step, for people.
    """

    pipeline: str
    streams: list[str]
    sinks: list[str]
    steps: list[str]


def read_graphs(deployment: Deployment, is_stopped: IsStopped = never) -> dict[str, ApplicationGraph]:
    """Imports each application in a separate process, and returns the graphs by the names of their processes.

    Spark programs are never imported: that would run them.

    Args:
        deployment: The deployment.
        is_stopped: Asked several times a second during an import.

    Raises:
        CannotRun: A file cannot be imported in time, or has no pipeline, or two of them have the same pipeline.
        Stopped: It was stopped; nothing of an import is left.
    """
    found: dict[str, ApplicationGraph] = {}
    for name, options in deployment.applications.items():
        graph = _read(deployment, name, options, is_stopped)
        for other, earlier in found.items():
            if earlier.pipeline == graph.pipeline:
                raise CannotRun(f"{name}: its pipeline is {graph.pipeline}, as in {other}; give it another name", 2)
        found[name] = graph
    return found


def _read(deployment: Deployment, process: str, options: PipelineOptions, is_stopped: IsStopped) -> ApplicationGraph:
    command, folder = graph_command(options), deployment.path.parent
    environ = environment(deployment, process, options.gateway)
    try:
        output = output_of(command, folder, environ, within_s=_WITHIN_S, is_stopped=is_stopped)
    except (OSError, ValueError) as error:
        raise CannotRun(f"{process}: the process that imports {options.app} cannot be started: {error}", 1) from None
    code, answer, said = output.exit_code, _answer(output.printed), output.said.splitlines()
    if code is None:
        raise CannotRun(f"{process}: {options.app} was not imported within {_WITHIN_S:g} s", 1)
    if code:
        raise CannotRun(f"{process}: {answer.get('error') or (said or [f'exit code {code}'])[-1]}", code)
    try:
        return ApplicationGraph(**answer["result"])
    except (LookupError, TypeError):
        raise CannotRun(f"{process}: {options.app} ended while it was imported; it must not end Python by itself", 1) from None


def _answer(printed: str) -> dict[str, Any]:
    """Returns the document that the command has printed; empty without one. The application may print more, before and after."""
    for line in reversed(printed.splitlines()):
        with contextlib.suppress(ValueError, RecursionError):
            answer = json.loads(line)
            if isinstance(answer, dict) and "ok" in answer:
                return answer
    return {}


def missing(deployment: Deployment, graph: ApplicationGraph) -> Iterator[str]:
    """Yields a note per stream or sink that no connector here provides: one elsewhere may, or the name is misspelled."""
    names: dict[str, list[str]] = {"source": [], "sink": []}
    for configured in deployment.connectors.values():
        names[configured.connector.kind].append(str(getattr(configured.parameters, configured.connector.kind)))
    for pattern in graph.streams:
        source = pattern.partition("/")[0]
        if "*" not in source and source not in names["source"]:
            yield f"no connector here provides the streams {pattern} that the application reads{nearest(source, names['source'])}"
    for sink in graph.sinks:
        if sink not in names["sink"]:
            yield f"no connector here serves the sink {sink} that the application writes to{nearest(sink, names['sink'])}"
