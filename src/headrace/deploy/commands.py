"""The command lines of a deployment's processes."""

import shlex
import sys
from collections.abc import Mapping
from pathlib import Path

from headrace.connectors.configuration import GatewayTable
from headrace.contract.settings import OF_GATEWAY, OF_QUERY, OF_RUN, TLS, TLS_CA, TLS_CERT, TLS_KEY
from headrace.deploy.configuration import Deployment
from headrace.deploy.tables import PipelineOptions, QueryOptions
from headrace.processes import under_supervisor


def gateway_command(deployment: Deployment, listen: str | None) -> list[str]:
    """Returns the command that runs the gateway.

    Args:
        deployment: The deployment.
        listen: The address of the previous start, to be kept; None at the first start.
    """
    options = deployment.gateway
    words = under_supervisor("gateway")
    for name, setting in OF_GATEWAY.items():
        words += setting.words(listen if name == "listen" and listen is not None else getattr(options, name))
    return words if deployment.env_file is None else [*words, "--env-file", str(deployment.env_file)]


def connector_command(deployment: Deployment, name: str, address: str) -> list[str]:
    """Returns the command that runs a connector."""
    words = under_supervisor("connector", "run", "-c", f"{deployment.path}:{name}", "--verbose")
    return words if deployment.connectors[name].gateway.address is not None else [*words, "--gateway", address]


def replay_command(options: GatewayTable, folder: Path, address: str, source: str, refused_by: str | None) -> list[str]:
    """Returns the command that replays the dead letters in a folder."""
    # In one word with their options, since callers of the gateway choose them.
    chosen = [f"--source={source}", *([f"--sink={refused_by}"] if refused_by is not None else [])]
    words = under_supervisor("dead-letters", "replay-files", str(folder.absolute()), *chosen, "--verbose")
    return [*words, "--gateway", options.address or address, *_tls(options)]


def pipeline_command(options: PipelineOptions, address: str, *, figures: bool) -> list[str]:
    """Returns the command that runs the application; with `figures`, it may ask the gateway for the figures of its streams."""
    words = under_supervisor("run", options.app, "--gateway", options.gateway.address or address)
    words += [word for name, setting in OF_RUN.items() for word in setting.words(getattr(options, name))]
    return [*words, *([] if figures else ["--no-figures"]), *_tls(options.gateway)]


def query_command(options: QueryOptions, address: str) -> list[str]:
    """Returns the command that runs a Spark program, which ends with its supervisor."""
    at = options.gateway.address or address
    return [sys.executable, "-m", "headrace.cli.spark_program", "--gateway", at, options.program, *options.args]


def spark_settings(options: QueryOptions) -> Mapping[str, str]:
    """Returns the variable by which PySpark starts the JVM of a program with its settings."""
    words = [word for name in ("master", "conf") for word in OF_QUERY[name].words(getattr(options, name))]
    return {"PYSPARK_SUBMIT_ARGS": shlex.join([*words, "pyspark-shell"])}


def graph_command(options: PipelineOptions) -> list[str]:
    """Returns the command that prints the application's graph as JSON, and ends with its supervisor."""
    return under_supervisor("run", options.app, "--dry-run", "--json")


def reachable(address: str) -> str:
    """Returns the address at which this machine reaches a gateway that listens on `address`."""
    host, _, port = address.rpartition(":")
    return f"{ {'0.0.0.0': '127.0.0.1', '[::]': '[::1]'}.get(host, host) }:{port}"


def _tls(options: GatewayTable) -> list[str]:
    words = [TLS.option] if options.tls else []
    for setting in (TLS_CA, TLS_CERT, TLS_KEY):
        value = getattr(options, setting.name)
        words += [setting.option, str(value)] if value is not None else []
    return words
