"""What YARN and Kubernetes lack is said before Spark starts, by build_session and by the command."""

import os
import socket
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from headrace.engine import OptionError
from headrace.engine.spark.masters import require_reachable

IMAGE = {"spark.kubernetes.container.image": "registry.example.com/engine:1"}
_VARIABLES = ("YARN_CONF_DIR", "HADOOP_CONF_DIR", "https_proxy", "HTTPS_PROXY", "http_proxy", "HTTP_PROXY")
_DEADLINE_S = 180.0


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in _VARIABLES:
        monkeypatch.delenv(name, raising=False)


def refusal(master: str, settings: Mapping[str, str]) -> str:
    with pytest.raises(OptionError) as refused:
        require_reachable(master, settings)
    return str(refused.value)


def test_other_masters_are_left_to_spark() -> None:
    for master in ("local", "local[*]", "local-cluster[2,1,1024]", "spark://nowhere:7077"):
        require_reachable(master, {})


def test_yarn_needs_the_configuration_of_a_cluster(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert "set HADOOP_CONF_DIR or YARN_CONF_DIR" in refusal("yarn", {})
    monkeypatch.setenv("HADOOP_CONF_DIR", str(tmp_path / "none"))
    assert f"HADOOP_CONF_DIR is {tmp_path / 'none'}, which is no folder" in refusal("yarn", {})
    monkeypatch.setenv("HADOOP_CONF_DIR", str(tmp_path))
    assert f"there is no yarn-site.xml in HADOOP_CONF_DIR ({tmp_path})" in refusal("yarn", {})
    require_reachable("yarn", {"spark.hadoop.yarn.resourcemanager.hostname": "rm"})
    (tmp_path / "yarn-site.xml").write_text("<configuration/>")
    require_reachable("yarn", {})


@pytest.mark.parametrize("master", ["local[2]", "yarn", "k8s://https://127.0.0.1:6443"])
def test_a_driver_that_is_to_run_elsewhere_is_refused(master: str) -> None:
    assert "spark-submit --deploy-mode cluster" in refusal(master, {"spark.submit.deployMode": "cluster"})


@pytest.mark.parametrize("master", ["k8s://", "k8s://https://", "k8s://ftp://host", "k8s://https://host:port"])
def test_a_master_that_names_no_api_server_is_refused(master: str) -> None:
    assert "want k8s://https://HOST:PORT" in refusal(master, IMAGE)


def test_kubernetes_needs_an_image_for_executors() -> None:
    assert "--conf spark.kubernetes.container.image=IMAGE" in refusal("k8s://https://127.0.0.1:6443", {})


def test_kubernetes_needs_an_api_server_that_answers() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        for address in (f"https://127.0.0.1:{port}", f"127.0.0.1:{port}", f"http://127.0.0.1:{port}"):
            require_reachable(f"k8s://{address}", IMAGE)
    assert f"no API server of Kubernetes answers at 127.0.0.1:{port}" in refusal(f"k8s://https://127.0.0.1:{port}", IMAGE)


def test_a_server_behind_a_proxy_is_left_to_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "http://proxy:3128")
    require_reachable("k8s://https://127.0.0.1:1", IMAGE)


@pytest.mark.parametrize(
    ("master", "says"),
    [
        ("yarn", "set HADOOP_CONF_DIR or YARN_CONF_DIR"),
        ("k8s://https://127.0.0.1:1", "no API server of Kubernetes answers at 127.0.0.1:1"),
    ],
)
def test_the_command_says_in_a_line_what_is_missing(tmp_path: Path, master: str, says: str) -> None:
    (tmp_path / "app.py").write_text(
        "from headrace.pipelines import Pipeline\n\n"
        'app = Pipeline("copy")\n'
        'app.source("lines/*", decode=bytes.decode).map(str.upper).sink("copies")\n'
    )
    conf = [word for name, value in IMAGE.items() for word in ("--conf", f"{name}={value}")]
    command = [sys.executable, "-m", "headrace.cli", "run", "app.py", "--master", master, *conf]
    environ = {name: value for name, value in os.environ.items() if name not in _VARIABLES}
    done = subprocess.run(
        command,
        cwd=tmp_path,
        env=environ,
        check=False,
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        timeout=_DEADLINE_S,
    )
    assert done.returncode == 2, done.stderr
    assert done.stderr.splitlines()[-1].startswith(f"Error: master {master}: "), done.stderr
    assert says in done.stderr, done.stderr
    assert "Traceback" not in done.stderr, done.stderr
