"""The streams and sinks of a deployment's application, and those that no connector provides."""

import json
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass

from headrace.configuration import nearest
from headrace.deploy.commands import environment, graph_command
from headrace.deploy.configuration import PIPELINE, Deployment
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
    """Imports the application in a separate process, and returns its graph by the name of its process.

    Raises:
        CannotRun: The file cannot be imported in time, or has no pipeline.
    """
    options = deployment.pipeline
    if options is None:
        return {}
    command, folder = graph_command(options), deployment.path.parent
    try:
        done = subprocess.run(
            command, cwd=folder, env=environment(deployment), capture_output=True, text=True, timeout=_WITHIN_S, check=False
        )
    except subprocess.TimeoutExpired:
        raise CannotRun(f"pipeline: {options.app} was not imported within {_WITHIN_S:.0f} s", 1) from None
    if done.returncode:
        said = done.stderr.strip().splitlines() or [f"exit code {done.returncode}"]
        raise CannotRun(f"pipeline: {said[-1].removeprefix('Error: ')}", done.returncode)
    # Lines before the last one are printed by the application itself.
    return {PIPELINE: ApplicationGraph(**json.loads(done.stdout.splitlines()[-1]))}


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
