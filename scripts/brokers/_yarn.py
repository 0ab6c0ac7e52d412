"""YARN: a resource manager and a node manager, each a process of its own, from the jar of Hadoop's mini cluster."""

import json
import os
import shutil
import urllib.request
from collections.abc import Mapping, Sequence
from pathlib import Path
from xml.sax.saxutils import escape

from scripts.brokers._broker import Broker
from scripts.brokers._ivy import SMALL_JVM, are_fetched, fetch, java, spark_jars
from scripts.brokers._processes import Command

_JARS = Path(__file__).parents[2] / ".build" / "brokers" / "yarn-jars"
_IVY_FILE = Path(__file__).with_name("yarn.ivy.xml")
_SERVER = "org.apache.hadoop.yarn.server"
_MAINS = (f"{_SERVER}.resourcemanager.ResourceManager", f"{_SERVER}.nodemanager.NodeManager")
_ANSWER_S = 60.0
_ADDRESSES = {
    "http": "yarn.resourcemanager.webapp.address",
    "clients": "yarn.resourcemanager.address",
    "scheduler": "yarn.resourcemanager.scheduler.address",
    "tracker": "yarn.resourcemanager.resource-tracker.address",
    "admin": "yarn.resourcemanager.admin.address",
    "node": "yarn.nodemanager.address",
    "localizer": "yarn.nodemanager.localizer.address",
    "node_http": "yarn.nodemanager.webapp.address",
}
_MEMORY_MB = 6144
_QUEUES = {
    "yarn.scheduler.capacity.root.queues": "default",
    "yarn.scheduler.capacity.root.default.capacity": "100",
    "yarn.scheduler.capacity.maximum-am-resource-percent": "0.9",
}
_LOGGING = """\
rootLogger.level = warn
rootLogger.appenderRef.out.ref = out
appender.out.type = Console
appender.out.name = out
appender.out.layout.type = PatternLayout
appender.out.layout.pattern = %d %p %c{1}: %m%n%ex
"""


class Yarn(Broker):
    """YARN with one node, whose containers run as the user who runs it. What runs on it does not survive a restart."""

    name = "yarn"
    default_ports = {  # noqa: RUF012
        "http": 8088,
        "clients": 8032,
        "scheduler": 8030,
        "tracker": 8031,
        "admin": 8033,
        "node": None,
        "localizer": 8040,
        "node_http": 8042,
    }

    @classmethod
    def is_installed(cls) -> bool:
        """Whether the jars are there, in the required version."""
        return are_fetched(_IVY_FILE, _JARS)

    @classmethod
    def install(cls) -> None:
        """Downloads the jars."""
        fetch(cls.name, _IVY_FILE, _JARS)

    def url_at(self, port: int) -> str:
        """Returns the address of the resource manager's HTTP API."""
        return f"http://{self.host}:{port}"

    @property
    def configuration(self) -> Path:
        """The folder of its `yarn-site.xml`, for HADOOP_CONF_DIR."""
        return self.folder / "configuration"

    @property
    def container_logs(self) -> Path:
        """The folder with a folder for each application, with one for each container in it."""
        return self.folder / "logs"

    def _prepare(self) -> None:
        self.configuration.mkdir(exist_ok=True)
        write_settings(self.configuration / "yarn-site.xml", self._settings())
        write_settings(self.configuration / "capacity-scheduler.xml", _QUEUES)
        (self.folder / "log4j2.properties").write_text(_LOGGING)

    def _settings(self) -> Mapping[str, str]:
        return {
            **{name: f"{self.host}:{self.ports[purpose]}" for purpose, name in _ADDRESSES.items()},
            "hadoop.tmp.dir": str(self.folder / "tmp"),
            "yarn.nodemanager.local-dirs": str(self.folder / "local"),
            "yarn.nodemanager.log-dirs": str(self.container_logs),
            # A test may look at the log of what has failed.
            "yarn.nodemanager.delete.debug-delay-sec": "86400",
            "yarn.nodemanager.resource.memory-mb": str(_MEMORY_MB),
            "yarn.scheduler.minimum-allocation-mb": "256",
            "yarn.nodemanager.vmem-check-enabled": "false",
            # A disk that is nine tenths full would be taken for a broken one.
            "yarn.nodemanager.disk-health-checker.enable": "false",
        }

    def _commands(self) -> Sequence[Command]:
        classes = f"{self.configuration}:{_JARS}/*:{spark_jars(self.name)}/*"
        jvm = [*SMALL_JVM, f"-Djava.io.tmpdir={self.folder}", f"-Dlog4j2.configurationFile={self.folder}/log4j2.properties"]
        # Containers start Java by this variable.
        found = shutil.which(java()) or java()
        environ = {"JAVA_HOME": os.environ.get("JAVA_HOME") or str(Path(found).resolve().parents[1])}
        return [Command([java(), *jvm, "-cp", classes, main], environ) for main in _MAINS]

    def _answers(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self.url}/ws/v1/cluster/metrics", timeout=_ANSWER_S) as answer:
                metrics = json.load(answer)["clusterMetrics"]
        except (OSError, ValueError, LookupError):
            return False
        return bool(metrics["activeNodes"] > 0)


def write_settings(file: Path, settings: Mapping[str, str]) -> None:
    """Writes a file of Hadoop's settings."""
    lines = (f"<property><name>{name}</name><value>{escape(value)}</value></property>" for name, value in settings.items())
    file.write_text("\n".join(["<configuration>", *lines, "</configuration>", ""]))
