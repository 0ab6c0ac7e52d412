"""What a deployment's application reads and writes, and what of it no connector has."""

import json
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass

from headrace.configuration import nearest
from headrace.deploy.commands import environment, graph_command
from headrace.deploy.configuration import Deployment
from headrace.deploy.errors import CannotRun

_WITHIN_S = 120.0


@dataclass(frozen=True, slots=True)
class ApplicationGraph:
    """What an application is.

    Attributes:
        pipeline: The name by which the gateway knows it.
        streams: The patterns of the streams that it reads.
        sinks: The sinks that it writes to.
        steps: A line for each step.
    """

    pipeline: str
    streams: list[str]
    sinks: list[str]
    steps: list[str]


def read_graph(deployment: Deployment) -> ApplicationGraph | None:
    """Imports the application, in a process of its own; None where the deployment has none.

    Raises:
        CannotRun: It cannot be imported, or is none.
    """
    options = deployment.pipeline
    if options is None:
        return None
    command, folder = graph_command(options), deployment.path.parent
    try:
        done = subprocess.run(
            command, cwd=folder, env=environment(), capture_output=True, text=True, timeout=_WITHIN_S, check=False
        )
    except subprocess.TimeoutExpired:
        raise CannotRun(f"pipeline: {options.app} was not imported within {_WITHIN_S:.0f} s", 1) from None
    if done.returncode:
        said = done.stderr.strip().splitlines() or [f"exit code {done.returncode}"]
        raise CannotRun(f"pipeline: {said[-1].removeprefix('Error: ')}", done.returncode)
    # What the application itself prints comes first.
    return ApplicationGraph(**json.loads(done.stdout.splitlines()[-1]))


def missing(deployment: Deployment, graph: ApplicationGraph) -> Iterator[str]:
    """Says what the application reads or writes and no connector here has: a connector elsewhere may, or it is misspelled."""
    names: dict[str, list[str]] = {"source": [], "sink": []}
    for configured in deployment.connectors.values():
        names[configured.connector.kind].append(str(getattr(configured.parameters, configured.connector.kind)))
    for pattern in graph.streams:
        source = pattern.partition("/")[0]
        if "*" not in source and source not in names["source"]:
            yield f"no connector here gives the streams {pattern} that the application reads{nearest(source, names['source'])}"
    for sink in graph.sinks:
        if sink not in names["sink"]:
            yield f"no connector here serves the sink {sink} that the application writes to{nearest(sink, names['sink'])}"
