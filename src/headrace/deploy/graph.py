"""The streams and sinks of a deployment's applications, and those that no connector provides."""

import contextlib
import json
import os
import signal
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from headrace.configuration import nearest
from headrace.deploy.commands import graph_command
from headrace.deploy.configuration import Deployment, PipelineOptions
from headrace.deploy.environment import environment
from headrace.deploy.errors import CannotRun

_WITHIN_S = 120.0
_LARGEST_BYTES = 4 << 20
"""How much of the end of an output is read."""


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
    # In files: a process that the application leaves behind could keep a pipe open.
    with tempfile.TemporaryFile() as printed, tempfile.TemporaryFile() as said:
        code = _run(command, folder, environ, printed, said)
        answer, error = _answer(_end_of(printed)), _end_of(said).splitlines()
    if code is None:
        raise CannotRun(f"{process}: {options.app} was not imported within {_WITHIN_S:g} s", 1)
    if code:
        raise CannotRun(f"{process}: {answer.get('error') or (error or [f'exit code {code}'])[-1]}", code)
    try:
        return ApplicationGraph(**answer["result"])
    except (LookupError, TypeError):
        raise CannotRun(f"{process}: {options.app} ended while it was imported; it must not end Python by itself", 1) from None


def _run(command: list[str], folder: Path, environ: Mapping[str, str], printed: BinaryIO, said: BinaryIO) -> int | None:
    """Runs a command, and kills it and what it leaves behind. Returns its exit code; None if it did not end in time."""
    with subprocess.Popen(
        command, cwd=folder, env=environ, stdin=subprocess.DEVNULL, stdout=printed, stderr=said, start_new_session=True
    ) as running:
        try:
            return running.wait(_WITHIN_S)
        except subprocess.TimeoutExpired:
            return None
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(running.pid, signal.SIGKILL)


def _end_of(file: BinaryIO) -> str:
    file.seek(max(0, file.seek(0, os.SEEK_END) - _LARGEST_BYTES))
    return file.read().decode(errors="replace").strip()


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
