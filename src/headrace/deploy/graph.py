"""The streams and sinks of a deployment's applications, and those that no connector provides."""

import json
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from headrace.configuration import nearest
from headrace.deploy.commands import graph_command
from headrace.deploy.configuration import Deployment, PipelineOptions
from headrace.deploy.environment import environment
from headrace.deploy.errors import CannotRun

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


def read_graphs(deployment: Deployment) -> dict[str, ApplicationGraph]:
    """Imports each application in a separate process, and returns the graphs by the names of their processes.

    Spark programs are never imported: that would run them.

    Raises:
        CannotRun: A file cannot be imported in time, or has no pipeline, or two of them have the same pipeline.
    """
    found: dict[str, ApplicationGraph] = {}
    for name, options in deployment.applications.items():
        graph = _read(deployment, name, options)
        for other, earlier in found.items():
            if earlier.pipeline == graph.pipeline:
                raise CannotRun(f"{name}: its pipeline is {graph.pipeline}, as that of {other}; give it another name", 2)
        found[name] = graph
    return found


def _read(deployment: Deployment, process: str, options: PipelineOptions) -> ApplicationGraph:
    command, folder = graph_command(options), deployment.path.parent
    environ = environment(deployment, process, options.gateway)
    try:
        done = subprocess.run(command, cwd=folder, env=environ, capture_output=True, text=True, timeout=_WITHIN_S, check=False)
    except subprocess.TimeoutExpired:
        raise CannotRun(f"{process}: {options.app} was not imported within {_WITHIN_S:.0f} s", 1) from None
    if done.returncode:
        raise CannotRun(f"{process}: {_why(done)}", done.returncode)
    return ApplicationGraph(**_answer(done.stdout)["result"])


def _answer(printed: str) -> dict[str, Any]:
    # Lines before the last one are printed by the application itself.
    answer: dict[str, Any] = json.loads(printed.splitlines()[-1])
    return answer


def _why(done: subprocess.CompletedProcess[str]) -> str:
    """Returns why an application cannot be imported; its process may have ended in the middle."""
    try:
        return str(_answer(done.stdout)["error"])
    except (ValueError, IndexError, LookupError, TypeError):
        return (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]


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
