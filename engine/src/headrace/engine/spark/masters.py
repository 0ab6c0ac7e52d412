"""What a Spark master needs before Spark connects to it: Spark itself tells it in a trace, or waits for minutes.

This is for the masters of YARN and Kubernetes, in the process that starts the driver's JVM.
"""

import os
import socket
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlsplit

from headrace.engine._errors import OptionError

YARN = "yarn"
"""Spark's name of a Hadoop cluster."""
_YARN_VARIABLES = ("YARN_CONF_DIR", "HADOOP_CONF_DIR")
_YARN_SITE = "yarn-site.xml"
_YARN_SETTING = "spark.hadoop.yarn.resourcemanager."
_KUBERNETES = "k8s://"
_IMAGES = ("spark.kubernetes.executor.container.image", "spark.kubernetes.container.image")
DEPLOY_MODE = "spark.submit.deployMode"
"""Spark's setting for where the driver runs."""
_ANSWER_WITHIN_S = 10.0
_PORTS = {"https": 443, "http": 80}


def require_reachable(master: str, settings: Mapping[str, str]) -> None:
    """Checks that Spark can look for executors at a master.

    Args:
        master: Spark's master URL.
        settings: Spark's settings.

    Raises:
        OptionError: The driver is to run elsewhere than here; or the master is YARN without the configuration of a cluster, or
            Kubernetes without an image for the executors, or without an API server that answers within 10 s.
    """
    if settings.get(DEPLOY_MODE, "client") != "client":
        raise OptionError(
            f"master {master}: {DEPLOY_MODE} is {settings[DEPLOY_MODE]}, but this process is the driver: remove the setting, or "
            "have the cluster run a program of your own with spark-submit --deploy-mode cluster"
        )
    if master == YARN:
        _require_yarn(settings)
    elif master.startswith(_KUBERNETES):
        _require_kubernetes(master, settings)


def _require_yarn(settings: Mapping[str, str]) -> None:
    folders = {name: folder for name in _YARN_VARIABLES if (folder := os.environ.get(name))}
    if not folders:
        raise OptionError(
            "master yarn: no configuration of a Hadoop cluster: set HADOOP_CONF_DIR or YARN_CONF_DIR to the folder of its "
            f"{_YARN_SITE} and core-site.xml"
        )
    for name, folder in folders.items():
        if not Path(folder).is_dir():
            raise OptionError(
                f"master yarn: {name} is {folder}, which is no folder: set it to the folder of the cluster's {_YARN_SITE}"
            )
    is_known = any(Path(folder, _YARN_SITE).is_file() for folder in folders.values())
    if not is_known and not any(name.startswith(_YARN_SETTING) for name in settings):
        where = ", ".join(f"{name} ({folder})" for name, folder in folders.items())
        raise OptionError(
            f"master yarn: there is no {_YARN_SITE} in {where}: copy it from the cluster, or name its ResourceManager with "
            f"--conf {_YARN_SETTING}hostname=HOST"
        )


def _require_kubernetes(master: str, settings: Mapping[str, str]) -> None:
    host, port, scheme = _api_server(master)
    if not any(settings.get(name) for name in _IMAGES):
        raise OptionError(
            f"master {master}: no image for the executors: name one that contains Spark and headrace-engine with "
            f"--conf {_IMAGES[1]}=IMAGE"
        )
    if _uses_proxy(scheme):
        return
    try:
        socket.create_connection((host, port), _ANSWER_WITHIN_S).close()
    except OSError as error:
        raise OptionError(
            f"master {master}: no API server of Kubernetes answers at {host}:{port}: {error}; use the address that "
            "kubectl cluster-info prints, after k8s://"
        ) from error


def _api_server(master: str) -> tuple[str, int, str]:
    """The host, the port and the scheme of a master; Spark takes https where it has no scheme."""
    address = master.removeprefix(_KUBERNETES)
    try:
        url = urlsplit(address if "://" in address else f"https://{address}")
        host, port = url.hostname, url.port
    except ValueError:
        host, port = None, None
    if host is None or url.scheme not in _PORTS:
        raise OptionError(
            f"master {master}: it names no API server: want k8s://https://HOST:PORT, as kubectl cluster-info prints it"
        )
    return host, port or _PORTS[url.scheme], url.scheme


def _uses_proxy(scheme: str) -> bool:
    """Whether Spark's client of Kubernetes may reach the server only through a proxy."""
    return any(os.environ.get(name) for name in (f"{scheme}_proxy", f"{scheme.upper()}_PROXY"))
