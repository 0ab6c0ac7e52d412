"""moto's S3 server, and Hadoop's client for it, which Spark needs for a checkpoint on S3."""

import os
import shutil
import subprocess
import sys
import urllib.request
from collections.abc import Sequence
from pathlib import Path

from scripts.brokers._broker import Broker, BrokerFailed
from scripts.brokers._ivy import spark_jars
from scripts.brokers._processes import Command

_BUILD = Path(__file__).parents[2] / ".build" / "brokers"
_SERVER = _BUILD / "s3-server"
_CLIENT = _BUILD / "s3a"
_PROGRAM = Path(__file__).with_name("s3_server.py")
JARS = _CLIENT / "jars"
"""The jars that Spark needs for S3, as the command in docs/run/cluster.md lists them."""
# In a separate environment, since it includes AWS clients that nothing else here needs.
_REQUIREMENTS = ["moto[s3]==5.2.5", "flask==3.1.3", "flask-cors==6.0.5", "waitress==3.0.2"]
_PACKAGES = [
    "org.apache.hadoop:hadoop-aws:3.5.0",
    "software.amazon.awssdk:s3-transfer-manager:2.35.4",
    "software.amazon.awssdk:sts:2.35.4",
]
# Spark already contains the libraries of the last line; the bundle is all of AWS in one jar, 35 times the size of the rest.
_LEFT_OUT = [
    "software.amazon.awssdk:bundle",
    "org.wildfly.openssl:wildfly-openssl",
    *("commons-codec:commons-codec", "commons-logging:commons-logging", "io.netty:*", "org.slf4j:*"),
]
_ANSWER_S = 2.0


class S3(Broker):
    """An S3 server that accepts any credentials, and keeps objects in memory: nothing remains once it ends.

    A conditional put is rejected if the object exists, and listings include every completed put.
    """

    name = "s3"
    default_ports = {"http": 9000}  # noqa: RUF012
    bucket = "headrace"

    @classmethod
    def is_installed(cls) -> bool:
        """Whether server and client are there, in the required versions."""
        stamp = _CLIENT / "stamp"
        return stamp.exists() and stamp.read_text() == _wanted()

    @classmethod
    def install(cls) -> None:
        """Installs the server in a separate environment, and downloads the client's jars as Spark does.

        Raises:
            BrokerFailed: They cannot be downloaded.
        """
        if cls.is_installed():
            return
        print("brokers: fetches an S3 server and Hadoop's client for it, some 100 MB", flush=True)
        shutil.rmtree(_SERVER, ignore_errors=True)
        shutil.rmtree(_CLIENT, ignore_errors=True)
        uv = Path(sys.executable).with_name("uv")
        _run(uv, "venv", "--quiet", "--python", sys.executable, _SERVER)
        _run(uv, "pip", "install", "--quiet", "--python", _SERVER / "bin/python", *_REQUIREMENTS)
        _run(spark_jars(cls.name).parent / "bin/spark-submit", *fetch_arguments(_CLIENT))
        (_CLIENT / "stamp").write_text(_wanted())

    def url_at(self, port: int) -> str:
        """Returns its endpoint."""
        return f"http://{self.host}:{port}"

    def _prepare(self) -> None:
        pass

    def _commands(self) -> Sequence[Command]:
        return [Command([_SERVER / "bin/python", _PROGRAM, self.host, str(self.port)])]

    def _answers(self) -> bool:
        # It starts without a bucket; creating an existing one is not an error.
        request = urllib.request.Request(f"{self.url}/{self.bucket}", method="PUT")
        try:
            with urllib.request.urlopen(request, timeout=_ANSWER_S) as answer:
                return bool(answer.status == 200)
        except OSError:
            return False


def fetch_arguments(folder: Path) -> list[str]:
    """Returns the arguments with which `spark-submit` downloads the client into a folder, and prints Hadoop's version."""
    packages = ["--packages", ",".join(_PACKAGES), "--exclude-packages", ",".join(_LEFT_OUT)]
    return [*packages, "--conf", f"spark.jars.ivy={folder}", "--class", "org.apache.hadoop.util.VersionInfo", "spark-internal"]


def _run(*command: str | Path) -> None:
    """Runs a command.

    Raises:
        BrokerFailed: The command failed.
    """
    # spark-submit looks for a Python that has PySpark.
    environ = {**os.environ, "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])}
    done = subprocess.run(command, env=environ, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if done.returncode:
        end = "\n".join(done.stdout.splitlines()[-15:])
        raise BrokerFailed(f"s3: {Path(command[0]).name} failed; run it again once the registries can be reached:\n{end}")


def _wanted() -> str:
    return "\n".join([*_REQUIREMENTS, *_PACKAGES, *_LEFT_OUT])
