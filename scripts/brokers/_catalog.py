"""A catalog of Iceberg with its REST protocol: what Iceberg's own tests serve, over a database in a file."""

import urllib.request
from collections.abc import Sequence
from pathlib import Path

from scripts.brokers._broker import Broker
from scripts.brokers._ivy import SMALL_JVM, are_fetched, fetch, java, spark_jars
from scripts.brokers._processes import Command

_JARS = Path(__file__).parents[2] / ".build" / "brokers" / "catalog-jars"
_IVY_FILE = Path(__file__).with_name("catalog.ivy.xml")
_SETTINGS = Path(__file__).with_name("registry.ivysettings.xml")
_SERVER = Path(__file__).with_name("CatalogServer.java")
_ANSWER_S = 2.0


class Catalog(Broker):
    """A REST catalog, without authentication."""

    name = "catalog"
    default_ports = {"http": 8181}  # noqa: RUF012

    @classmethod
    def is_installed(cls) -> bool:
        """Whether the jars are there, in the required version."""
        return are_fetched(_IVY_FILE, _JARS)

    @classmethod
    def install(cls) -> None:
        """Downloads the jars."""
        fetch(cls.name, _IVY_FILE, _JARS, settings=_SETTINGS)

    def url_at(self, port: int) -> str:
        """Returns its address."""
        return f"http://{self.host}:{port}"

    def _prepare(self) -> None:
        """Does nothing: the server makes its files."""

    def _commands(self) -> Sequence[Command]:
        # The jars of both have classes of one name: the first ones are Jetty's.
        classes = f"{_JARS}/*:{spark_jars(self.name)}/*"
        where = [self.host, str(self.port), str(self.folder / "catalog.db"), str(self.folder / "tables")]
        return [Command([java(), *SMALL_JVM, f"-Djava.io.tmpdir={self.folder}", "-cp", classes, str(_SERVER), *where])]

    def _answers(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self.url}/v1/config", timeout=_ANSWER_S):
                return True
        except OSError:
            return False
