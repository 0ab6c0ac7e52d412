"""A schema registry with Confluent's API: Apicurio's, which keeps its schemas in memory."""

import tarfile
import urllib.request
from collections.abc import Sequence
from pathlib import Path

from scripts.brokers._broker import Broker
from scripts.brokers._ivy import SMALL_JVM, are_fetched, fetch, java
from scripts.brokers._processes import Command

_JARS = Path(__file__).parents[2] / ".build" / "brokers" / "registry-jars"
_IVY_FILE = Path(__file__).with_name("registry.ivy.xml")
_SETTINGS = Path(__file__).with_name("registry.ivysettings.xml")
_API = "/apis/ccompat/v7"
_ANSWER_S = 2.0


class Registry(Broker):
    """A schema registry; `url` is the address of Confluent's API."""

    name = "registry"
    default_ports = {"http": 8081}  # noqa: RUF012

    @classmethod
    def is_installed(cls) -> bool:
        """Whether it is unpacked, in the required version."""
        return are_fetched(_IVY_FILE, _JARS)

    @classmethod
    def install(cls) -> None:
        """Downloads and unpacks it."""
        fetch(cls.name, _IVY_FILE, _JARS, settings=_SETTINGS, unpack=_unpack)

    def url_at(self, port: int) -> str:
        """Returns the address of Confluent's API."""
        return f"http://{self.host}:{port}{_API}"

    def _prepare(self) -> None:
        """Does nothing: it has no files."""

    def _commands(self) -> Sequence[Command]:
        where = [f"-Dquarkus.http.host={self.host}", f"-Dquarkus.http.port={self.port}", f"-Djava.io.tmpdir={self.folder}"]
        return [Command([java(), *SMALL_JVM, *where, "-jar", next(_JARS.glob("*-runner.jar"))])]

    def _answers(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self.url}/subjects", timeout=_ANSWER_S):
                return True
        except OSError:
            return False


def _unpack() -> None:
    for archive in _JARS.glob("*.tar.gz"):
        with tarfile.open(archive) as packed:
            packed.extractall(_JARS, filter="data")
        archive.unlink()
