"""The configuration of a connector: a configuration file, or a table of a deployment."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from pydantic import Field, SecretStr, model_validator

from headrace.configuration import ConfigurationFile, Key, nearest
from headrace.connectors import Connector, Implementation, Parameters, connector_names, find_connector
from headrace.contract.limits import DEFAULT_GATEWAY
from headrace.contract.settings import GATEWAY, TLS, TLS_CA, TLS_CERT, TLS_KEY, TOKEN, TOKEN_FILE, Setting
from headrace.contract.token_files import TokenFileError, descriptor_of, read_token
from headrace.terminal import as_typed


def _described(setting: Setting, otherwise: str = "") -> str:
    return f"{setting.description} Default: {setting.variable}{otherwise}."


class GatewayTable(Parameters):
    """How to reach a gateway: a connector's table `gateway`. Setting any of the files also enables TLS."""

    address: str | None = Field(default=None, description=_described(GATEWAY, f", or else {DEFAULT_GATEWAY}"))
    token: SecretStr | None = Field(default=None, description=_described(TOKEN))
    token_file: Path | None = Field(default=None, description=_described(TOKEN_FILE))
    tls: bool = Field(default=False, description=TLS.description)
    tls_ca: Path | None = Field(default=None, description=TLS_CA.description)
    tls_cert: Path | None = Field(default=None, description=TLS_CERT.description)
    tls_key: Path | None = Field(default=None, description=TLS_KEY.description)

    @model_validator(mode="after")
    def _whole(self) -> Self:
        if (self.tls_cert is None) != (self.tls_key is None):
            raise ValueError("tls_cert and tls_key go together: give both, or neither")
        if self.token is not None and self.token_file is not None:
            raise ValueError("token and token_file exclude each other: give the token, or the file that contains it")
        return self


@dataclass(frozen=True)
class Configured:
    """A connector with its configuration.

    Attributes:
        connector: The connector.
        implementation: How to build it.
        parameters: Its parameters.
        instance: The name of this deployment; None for the connector's default.
        gateway: How it reaches its gateway.
    """

    connector: Connector
    implementation: Implementation[Any]
    parameters: Parameters
    instance: str | None
    gateway: GatewayTable


class ConnectorTable(Parameters):
    """The keys of every connector, in addition to its own parameters."""

    connector: str = Field(description="The name of the connector; headrace connector list shows all of them.")
    instance: str | None = Field(default=None, description="The name of this deployment; the newest process of it takes over.")
    gateway: GatewayTable = Field(default_factory=GatewayTable)


HEAD = tuple(ConnectorTable.model_fields)
"""The keys of a connector's table that are not its parameters."""


ENV_FILE: Key = ("env_file",)
"""The key of a deployment that names its file of variables."""


def load_connector(target: str, environ: Mapping[str, str] = os.environ) -> Configured:
    """Loads the connector that `FILE` configures, or `FILE:NAME` for a deployment.

    Raises:
        ConfigurationError: The file is invalid; the error lists every problem with its line.
        ConnectorUnavailable: The connector cannot be used on this machine, for instance because its client library is missing.
    """
    path, name = _split(target)
    reading = ConfigurationFile(path, environ)
    if name is not None:
        reading.take_env_file(ENV_FILE)
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
    """Returns the connector of a table; None, with the problems noted, if it is invalid.

    Args:
        reading: The file.
        key: The table.
        instance: The instance if the table does not set one.
    """
    table = reading.table(key)
    head = reading.take(ConnectorTable, {name: value for name, value in table.items() if name in HEAD}, key)
    connector = _connector_named(reading, key, table.get("connector"))
    if connector is None:
        return None
    implementation = connector.load()
    given = {name: value for name, value in table.items() if name not in HEAD}
    parameters = reading.take(implementation.parameters, given, key, HEAD)
    if head is not None:
        check_token_file(reading, key, head.gateway)
    if head is None or parameters is None:
        return None
    return Configured(connector, implementation, parameters, head.instance or instance, head.gateway)


def check_token_file(reading: ConfigurationFile, key: Key, gateway: GatewayTable) -> None:
    """Reports a `token_file` that contains no token.

    Args:
        reading: The file.
        key: The table with the table `gateway`.
        gateway: That table.
    """
    if gateway.token_file is not None:
        if descriptor_of(gateway.token_file) in (0, 1, 2):
            text = "processes of a deployment have standard streams of their own; use a descriptor from 3 on"
            reading.report((*key, "gateway", "token_file"), text)
            return
        try:
            read_token(gateway.token_file)
        except TokenFileError as error:
            reading.report((*key, "gateway", "token_file"), str(error))


def _connector_named(reading: ConfigurationFile, key: Key, name: object) -> Connector | None:
    """Returns the connector with a name; None, with the problem noted, if there is none."""
    if not isinstance(name, str):
        return None
    connector = find_connector(name)
    if connector is None:
        advice = nearest(name, connector_names()) or as_typed("; headrace connector list shows all connectors")
        reading.report((*key, "connector"), f"there is no connector {name}{advice}")
    return connector


def _split(target: str) -> tuple[Path, str | None]:
    """Returns a file, and the name of a connector in it if one is given."""
    file, colon, name = target.rpartition(":")
    return (Path(file), name) if colon and not os.path.exists(target) else (Path(target), None)
