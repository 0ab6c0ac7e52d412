"""What each image contains, and what it runs."""

from collections.abc import Mapping
from dataclasses import dataclass

PYTHON = "/usr/bin/python3.11"
PROGRAMS = "/opt/headrace"
USER_ID = 65532
"""The user that runs everything, without a name, a shell, or a file of its own."""
SUITE = "bookworm"
"""The release of Debian whose packages images consist of: its Python must be able to import the wheels."""

_SDK_PACKAGES = ("python3.11-minimal", "libpython3.11-stdlib", "libstdc++6", "ca-certificates")
_PYTHON_PACKAGES = (*_SDK_PACKAGES, "tzdata")
_SPARK_PACKAGES = ("bash", "coreutils", "procps", "tini", "openjdk-17-jre-headless", "python3-minimal")


@dataclass(frozen=True)
class Image:
    """An image.

    Attributes:
        requirement: The distribution that it is made for, with its extras.
        entrypoint: The program that it starts, with its first arguments.
        arguments: What follows unless whoever starts it gives arguments.
        health: The command that judges a container by its exit code; empty where nothing in it can tell, such as a connector,
            whose health the gateway shows.
        packages: The packages of Debian, without the ones that they depend on.
        environment: Variables, beside the ones of all images.
        compiles: Whether it contains bytecode of all modules.
    """

    requirement: str
    entrypoint: tuple[str, ...]
    arguments: tuple[str, ...] = ()
    health: tuple[str, ...] = ()
    packages: tuple[str, ...] = _PYTHON_PACKAGES
    environment: Mapping[str, str] | None = None
    compiles: bool = True


IMAGES: Mapping[str, Image] = {
    # Smaller without bytecode; it starts a little later.
    "sdk": Image("headrace-sdk", (PYTHON,), packages=_SDK_PACKAGES, compiles=False),
    "gateway": Image(
        "headrace-gateway",
        (f"{PROGRAMS}/bin/headrace-gateway",),
        health=(f"{PROGRAMS}/bin/headrace-gateway", "status", "--json"),
    ),
    "connectors": Image("headrace-connectors[all]", (f"{PROGRAMS}/bin/headrace-connectors",), ("list",)),
    "engine": Image(
        "headrace-engine",
        (f"{PROGRAMS}/pyspark/bin/spark-class",),
        ("org.apache.spark.deploy.worker.Worker", "spark://localhost:7077"),
        (PYTHON, "-c", "import urllib.request as r; r.urlopen('http://127.0.0.1:8081/json/', timeout=5)"),
        (*_PYTHON_PACKAGES, *_SPARK_PACKAGES),
        {
            "JAVA_HOME": "/usr/lib/jvm/java-17-openjdk-amd64",
            "SPARK_HOME": f"{PROGRAMS}/pyspark",
            "SPARK_NO_DAEMONIZE": "1",
            "SPARK_WORKER_DIR": "/tmp/work",
            "PYSPARK_PYTHON": PYTHON,
        },
    ),
}
"""All images, by name."""
