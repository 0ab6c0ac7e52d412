"""Stores of checkpoints: what Spark needs to reach each of them, and what lies there, read without Spark."""

import json
import os
import urllib.parse
import urllib.request
import uuid
import xml.etree.ElementTree as ET
from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path

from scripts.brokers import S3, Hdfs
from scripts.brokers._s3 import JARS
from tests.docs.pages import blocks

PAGE = "docs/run/cluster.md"
_ANSWER_S = 120.0
_S3 = "{http://s3.amazonaws.com/doc/2006-03-01/}"


class Store(ABC):
    """A store of checkpoints that runs."""

    heading: str
    """Where its page is."""
    documented: str
    """The folder of checkpoints that the commands of its page name."""

    def __init__(self) -> None:
        # The server outlives a test, and the next one must not find its checkpoints.
        self.folder = f"checkpoints-{uuid.uuid4().hex}"

    @property
    @abstractmethod
    def root(self) -> str:
        """The folder of checkpoints here, as Spark's setting names it."""

    @abstractmethod
    def environ(self, folder: Path) -> Mapping[str, str]:
        """What programs need in their environment to reach it; files for it go into a folder."""

    @abstractmethod
    def names(self, folder: str) -> list[str]:
        """The files right in a folder below the root, in order."""

    @abstractmethod
    def read(self, name: str) -> bytes:
        """A file below the root."""

    def command(self, begin: str, checkpoint: str, master: str) -> list[str]:
        """The command of its page that begins so, for a checkpoint here and a master."""
        lines = [line for block in blocks(PAGE, "bash") if block.heading == self.heading for line in block.text.splitlines()]
        (line,) = (line for line in lines if line.startswith(begin))
        given = line.split()
        assert f"{self.documented}/word-count" in given, line
        here = {f"{self.documented}/word-count": f"{self.root}/{checkpoint}", "spark://master:7077": master}
        return [here.get(word, word) for word in given]


class HdfsStore(Store):
    """HDFS."""

    heading = "HDFS"
    documented = "hdfs://namenode:9820/checkpoints"

    def __init__(self, hdfs: Hdfs) -> None:
        super().__init__()
        self._hdfs = hdfs

    @property
    def root(self) -> str:
        return f"{self._hdfs.url}/{self.folder}"

    def environ(self, folder: Path) -> Mapping[str, str]:
        return {}

    def names(self, folder: str) -> list[str]:
        listed = json.loads(self._get(folder, "LISTSTATUS"))["FileStatuses"]["FileStatus"]
        return sorted(status["pathSuffix"] for status in listed if status["type"] == "FILE")

    def read(self, name: str) -> bytes:
        return self._get(name, "OPEN")

    def _get(self, name: str, operation: str) -> bytes:
        # The name node sends the reader on to a data node.
        path = urllib.parse.quote(f"/webhdfs/v1/{self.folder}/{name}")
        url = f"http://{self._hdfs.host}:{self._hdfs.ports['http']}{path}?op={operation}"
        with urllib.request.urlopen(url, timeout=_ANSWER_S) as answer:
            return bytes(answer.read())


class S3Store(Store):
    """S3, as the page has Spark reach it: by the file that has its settings."""

    heading = "S3"
    documented = "s3a://headrace/checkpoints"

    def __init__(self, s3: S3) -> None:
        super().__init__()
        self._s3 = s3

    @property
    def root(self) -> str:
        return f"s3a://{self._s3.bucket}/{self.folder}"

    def environ(self, folder: Path) -> Mapping[str, str]:
        (settings,) = (block.text for block in blocks(PAGE, "properties") if block.heading == self.heading)
        for documented, here in {"/opt/headrace/s3a/jars": str(JARS), "http://minio:9000": self._s3.url}.items():
            assert documented in settings
            settings = settings.replace(documented, here)
        (folder / "spark-defaults.conf").write_text(settings)
        secrets = {"AWS_ACCESS_KEY_ID": self._s3.user, "AWS_SECRET_ACCESS_KEY": self._s3.password}
        return {"SPARK_CONF_DIR": str(folder), **secrets}

    def names(self, folder: str) -> list[str]:
        prefix = f"{self.folder}/{folder}/"
        words = {"list-type": "2", "delimiter": "/", "prefix": prefix}
        found: list[str] = []
        more: dict[str, str] = {}
        while True:
            listed = ET.fromstring(self._get(f"?{urllib.parse.urlencode({**words, **more})}"))
            found += [key.text or "" for key in listed.iter(f"{_S3}Key")]
            token = listed.findtext(f"{_S3}NextContinuationToken")
            if token is None:
                return sorted(name.removeprefix(prefix) for name in found if name != prefix)
            more = {"continuation-token": token}

    def read(self, name: str) -> bytes:
        return self._get(f"/{urllib.parse.quote(f'{self.folder}/{name}')}")

    def _get(self, what: str) -> bytes:
        # The server looks at whose request it is, and not at the signature.
        scope = f"{self._s3.user}/20260101/us-east-1/s3/aws4_request"
        signed = f"AWS4-HMAC-SHA256 Credential={scope}, SignedHeaders=host, Signature=none"
        request = urllib.request.Request(f"{self._s3.url}/{self._s3.bucket}{what}", headers={"Authorization": signed})
        with urllib.request.urlopen(request, timeout=_ANSWER_S) as answer:
            return bytes(answer.read())


def plain_environ() -> dict[str, str]:
    """This process's environment without what would configure Headrace, Spark or a client of S3."""
    others = ("HEADRACE_", "SPARK_CONF_DIR", "AWS_", "HADOOP_")
    return {name: value for name, value in os.environ.items() if not name.startswith(others)}
