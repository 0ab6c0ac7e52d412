"""The configuration of a connector: a file of its own, or a table of a deployment."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from pydantic import Field, SecretStr, model_validator

from headrace.configuration._file import ConfigurationFile, Key
from headrace.configuration._validate import nearest
from headrace.connectors import CONNECTORS, Connector, Implementation, Parameters
from headrace.terminal import as_typed


class GatewayTable(Parameters):
    """How to reach a gateway: the table `gateway` of a connector. TLS is spoken where any of its files is given, too."""

    address: str | None = Field(default=None, description="HOST:PORT; where not given, HEADRACE_GATEWAY, else 127.0.0.1:7433.")
    token: SecretStr | None = Field(default=None, description="What to identify with; where not given, HEADRACE_TOKEN.")
    tls: bool = Field(default=False, description="Speak TLS; implied by the files below.")
    tls_ca: Path | None = Field(default=None, description="PEM: whom to trust; else what this machine trusts.")
    tls_cert: Path | None = Field(default=None, description="PEM: the certificate to show.")
    tls_key: Path | None = Field(default=None, description="PEM: its key.")

    @model_validator(mode="after")
    def _whole(self) -> Self:
        if (self.tls_cert is None) != (self.tls_key is None):
            raise ValueError("tls_cert and tls_key go together: a certificate and its key")
        return self


@dataclass(frozen=True)
class Configured:
    """A connector with everything that it is told.

    Attributes:
        connector: Which one.
        implementation: How it is made.
        parameters: Its parameters.
        instance: Which deployment of it this is; None for the connector's own choice.
        gateway: How it reaches its gateway.
    """

    connector: Connector
    implementation: Implementation[Any]
    parameters: Parameters
    instance: str | None
    gateway: GatewayTable


class ConnectorTable(Parameters):
    """What is said of every connector, beside its own parameters."""

    connector: str = Field(description="Which one; headrace connector list names them all.")
    instance: str | None = Field(default=None, description="Which deployment of it this is; a newer run of it takes over.")
    gateway: GatewayTable = Field(default_factory=GatewayTable)


HEAD = tuple(ConnectorTable.model_fields)
"""The keys of a connector's table that are none of its parameters."""


def load_connector(target: str, environ: Mapping[str, str] = os.environ) -> Configured:
    """Reads what `FILE` says, or a deployment's `FILE:NAME`.

    Raises:
        ConfigurationError: The file is wrong; the error names every problem with its line.
        MissingExtra: The connector's client library is not installed.
    """
    path, name = _split(target)
    reading = ConfigurationFile(path, environ)
    names = reading.names(("connectors",))
    if name is None and "connector" not in reading.names() and names:
        reading.report((), f"this is a deployment; name one of its connectors: {path}:{names[0]}")
    elif name is not None and name not in names:
        reading.report(("connectors",), f"there is no connector {name} here{nearest(name, names)}")
    reading.check()
    configured = take_connector(reading, () if name is None else ("connectors", name), name)
    reading.check()
    assert configured is not None
    return configured


def take_connector(reading: ConfigurationFile, key: Key, instance: str | None) -> Configured | None:
    """The connector of a table; None, with the problems noted, where there is none.

    Args:
        reading: The file.
        key: The table.
        instance: Which instance it is where the table does not say.
    """
    table = reading.table(key)
    head = reading.take(ConnectorTable, {name: value for name, value in table.items() if name in HEAD}, key)
    connector = _known(reading, key, table.get("connector"))
    if connector is None:
        return None
    implementation = connector.load()
    given = {name: value for name, value in table.items() if name not in HEAD}
    parameters = reading.take(implementation.parameters, given, key, HEAD)
    if head is None or parameters is None:
        return None
    return Configured(connector, implementation, parameters, head.instance or instance, head.gateway)


def _known(reading: ConfigurationFile, key: Key, name: object) -> Connector | None:
    """The connector of a name; None, with the problem noted, where there is none."""
    connector = next((known for known in CONNECTORS if known.name == name), None)
    if connector is None and isinstance(name, str):
        advice = nearest(name, [known.name for known in CONNECTORS]) or as_typed("; headrace connector list names them all")
        reading.report((*key, "connector"), f"there is no connector {name}{advice}")
    return connector


def _split(target: str) -> tuple[Path, str | None]:
    """A file, and the name of a connector in it where one is given."""
    file, colon, name = target.rpartition(":")
    return (Path(file), name) if colon and not os.path.exists(target) else (Path(target), None)
