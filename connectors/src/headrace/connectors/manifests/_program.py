"""The program of a connector: what is executed, and how parameters reach it."""

import json
import os
import shutil
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import SecretStr

from headrace.connectors._errors import ConnectorUnavailable
from headrace.connectors._parameters import Parameters
from headrace.connectors.manifests.trust import untrusted
from headrace.contract.settings import OF_CONNECTION

PARAMETERS = "HEADRACE_PARAMETERS"
SECRET = "HEADRACE_SECRET_"
OF_THE_GATEWAY = tuple(setting.variable for setting in OF_CONNECTION.values())
"""The variables that say how to reach the gateway, and prove who the connector is."""


@dataclass(frozen=True, slots=True)
class Program:
    """A program with its parameters. They reach it in the environment: everybody can read command lines.

    Attributes:
        connector: The name of the connector.
        manifest: Its manifest.
        words: The program and its arguments.
        parameters: All parameters but the secrets, as JSON.
        secrets: The secrets, by the name of their variable.
        instance: The instance if none is given: the name of the source or sink.
    """

    connector: str
    manifest: Path
    words: tuple[str, ...]
    parameters: str
    secrets: dict[str, str] = field(repr=False)
    instance: str

    @staticmethod
    def of(connector: str, manifest: Path, words: tuple[str, ...], parameters: Parameters, kind: str) -> "Program":
        """Returns a program with parameters; `{folder}` in a word is the manifest's folder."""
        given = {info.alias or name: getattr(parameters, name) for name, info in type(parameters).model_fields.items()}
        secrets = {name: value for name, value in given.items() if isinstance(value, SecretStr)}
        plain = parameters.model_dump(mode="json", by_alias=True, exclude_none=True)
        return Program(
            connector,
            manifest,
            tuple(word.replace("{folder}", str(manifest.parent)) for word in words),
            json.dumps({name: value for name, value in plain.items() if name not in secrets}),
            {f"{SECRET}{name.upper()}": value.get_secret_value() for name, value in secrets.items()},
            str(given[kind]),
        )

    def executable(self) -> str:
        """Returns the path of the program.

        Raises:
            ConnectorUnavailable: It does not exist, cannot be executed, or others can change it.
        """
        word = self.words[0]
        if "/" not in word:
            found = shutil.which(word)
            if found is None:
                raise self.unavailable(f"there is no program {word} in PATH: install it, or correct {self.manifest}")
            return os.path.abspath(found)
        path = self.manifest.parent / word
        if not path.is_file():
            raise self.unavailable(f"there is no program {path}: install it, or correct {self.manifest}")
        if not os.access(path, os.X_OK):
            raise self.unavailable(f"{path} is not executable: chmod +x {path}")
        if path.is_relative_to(self.manifest.parent) and (reason := untrusted(path, 0)) is not None:
            raise self.unavailable(reason)
        return str(path)

    def environ(self) -> dict[str, str]:
        """Returns the environment of the program: the parameters, the secrets, and what this process has but the gateway."""
        inherited = {
            name: value for name, value in os.environ.items() if not name.startswith(SECRET) and name not in OF_THE_GATEWAY
        }
        return {**inherited, PARAMETERS: self.parameters, **self.secrets}

    def unavailable(self, reason: str) -> ConnectorUnavailable:
        """Returns the error that the program cannot be executed."""
        return ConnectorUnavailable(self.connector, str(self.manifest), reason)

    def not_started(self, error: OSError | ValueError) -> ConnectorUnavailable:
        """Returns the error that the system did not start the program. It shows no parameters."""
        why = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        advice = "does it begin with #! and an interpreter, or is it made for another machine, or are its parameters too long?"
        return self.unavailable(f"{self.words[0]} does not start: {why}; {advice}")
