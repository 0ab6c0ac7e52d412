"""HDFS: a name node and a data node in one process, from Hadoop's mini cluster for tests."""

import json
import urllib.request
from collections.abc import Sequence
from pathlib import Path

from scripts.brokers._broker import Broker
from scripts.brokers._ivy import SMALL_JVM, are_fetched, fetch, java, spark_jars
from scripts.brokers._processes import Command

_JARS = Path(__file__).parents[2] / ".build" / "brokers" / "hdfs-jars"
_IVY_FILE = Path(__file__).with_name("hdfs.ivy.xml")
_STATE = "/jmx?qry=Hadoop:service=NameNode,name=FSNamesystemState"
_ANSWER_S = 2.0


class Hdfs(Broker):
    """HDFS, whose only superuser is the user who runs it. `url` leads to its root folder."""

    name = "hdfs"
    default_ports = {"name_node": 9820, "http": 9870}  # noqa: RUF012

    @classmethod
    def is_installed(cls) -> bool:
        """Whether the jars are there, in the required version."""
        return are_fetched(_IVY_FILE, _JARS)

    @classmethod
    def install(cls) -> None:
        """Downloads the jars."""
        fetch(cls.name, _IVY_FILE, _JARS)

    def url_at(self, port: int) -> str:
        """Returns the URL of its root folder."""
        return f"hdfs://{self.host}:{port}"

    def _prepare(self) -> None:
        self._data.mkdir(exist_ok=True)

    def _commands(self) -> Sequence[Command]:
        where = ["-nnport", str(self.port), "-httpport", str(self.ports["http"])]
        new = [] if any(self._data.rglob("VERSION")) else ["-format"]
        values = {"hdfs.minidfs.basedir": self._data, "hadoop.tmp.dir": self._data / "tmp", "dfs.replication": 1}
        settings = [word for name, value in values.items() for word in ("-D", f"{name}={value}")]
        classes = f"{_JARS}/*:{spark_jars(self.name)}/*"
        main = "org.apache.hadoop.test.MiniDFSClusterManager"
        jvm = [*SMALL_JVM, f"-Djava.io.tmpdir={self._data}"]
        return [Command([java(), *jvm, "-cp", classes, main, *new, *where, "-datanodes", "1", *settings])]

    def _answers(self) -> bool:
        # Its ports answer before its data node is ready.
        try:
            with urllib.request.urlopen(f"http://{self.host}:{self.ports['http']}{_STATE}", timeout=_ANSWER_S) as answer:
                state = json.load(answer)["beans"][0]
        except (OSError, ValueError, LookupError):
            return False
        return bool(state["FSState"] == "Operational" and state["NumLiveDataNodes"] > 0)

    @property
    def _data(self) -> Path:
        return self.folder / "data"
