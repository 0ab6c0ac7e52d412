"""The manifests of examples/kubernetes, and the pods that Spark makes of them, are valid by the published schemas."""

import copy
import re
import time
from pathlib import Path
from typing import Any

import click
import kubernetes_validate
import pytest
import yaml
from tests.cluster.kubernetes_api import ApiServer, api_server
from tests.cluster.stores import plain_environ
from tests.docs.pages import ROOT, blocks, text

from headrace import gateway_cli
from headrace.cli import cli
from headrace.processes import OwnedProcess, headrace

VERSION = "1.37"
FOLDER = ROOT / "examples/kubernetes"
FILES = sorted(FOLDER.glob("*.yaml"))
DEADLINE_S = 600.0


def resources(file: Path) -> list[dict[str, Any]]:
    return [*yaml.safe_load_all(file.read_text())]


def container(kind: str, file: str) -> dict[str, Any]:
    """The only container of a file's resource of a kind."""
    (resource,) = (one for one in resources(FOLDER / file) if one["kind"] == kind)
    pod = resource if kind == "Pod" else resource["spec"]["template"]
    (found,) = pod["spec"]["containers"]
    return dict(found)


def validate(resource: dict[str, Any]) -> None:
    kubernetes_validate.validate(resource, VERSION, strict=True)


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_manifests_are_valid(file: Path) -> None:
    for resource in resources(file):
        validate(resource)


def test_the_schemas_refuse_a_field_that_does_not_exist() -> None:
    (pod,) = resources(FOLDER / "executor.yaml")
    wrong = copy.deepcopy(pod)
    wrong["spec"]["containers"][0]["volumeMount"] = []
    with pytest.raises(kubernetes_validate.ValidationError):
        validate(wrong)


def test_the_page_names_the_files_and_the_version_of_the_schemas() -> None:
    page = "docs/run/kubernetes.md"
    named = {name for block in blocks(page, "text") for name in re.findall(r"[\w-]+\.yaml", block.text)}
    assert named == {file.name for file in FILES}
    assert f"schemas of Kubernetes\n{VERSION}" in text(page)


def test_the_options_of_the_commands_exist() -> None:
    run = cli.get_command(click.Context(cli), "run")
    assert run is not None
    for command, words in (
        (run, container("Deployment", "driver.yaml")["args"]),
        (gateway_cli.program, container("Deployment", "gateway.yaml")["args"]),
    ):
        known = {option for parameter in command.params for option in parameter.opts if isinstance(parameter, click.Option)}
        assert {word.partition("=")[0] for word in words if word.startswith("--")} <= known


@pytest.mark.timeout(1200)
def test_the_pods_that_spark_asks_for_are_valid_and_made_of_the_template(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(blocks("README.md", "python")[-1].text)
    with api_server() as server:
        driver = OwnedProcess("driver", command_of(server, tmp_path), tmp_path, plain_environ())
        driver.start()
        try:
            wait_for_pods(server, driver, 2)
        finally:
            driver.kill()
    template = container("Pod", "executor.yaml")
    for pod in server.created("Pod"):
        validate(pod)
        assert pod["spec"]["securityContext"]["runAsNonRoot"] is True
        (made,) = pod["spec"]["containers"]
        assert (made["name"], made["args"], made["image"]) == ("executor", ["executor"], "registry.example.com/headrace/spark:1")
        assert made["securityContext"] == template["securityContext"]
        assert {mount["mountPath"] for mount in made["volumeMounts"]} >= {"/checkpoints"}
    (settings,) = server.created("ConfigMap")
    validate(settings)


def command_of(server: ApiServer, folder: Path) -> list[str]:
    """The driver's command, with this machine in place of what a pod has."""
    driver = container("Deployment", "driver.yaml")
    program, words = driver["command"][0], [*driver["command"][1:], *driver["args"]]
    assert program == "headrace"
    here = {
        "k8s://https://kubernetes.default.svc": f"k8s://{server.url}",
        "/app/app.py": "app.py",
        "/app/executor.yaml": str(FOLDER / "executor.yaml"),
        "/checkpoints/": f"{folder}/checkpoints/",
        "spark.driver.host=word-count": "spark.driver.host=127.0.0.1",
        "spark.driver.port=7078": "spark.driver.port=0",
        "spark.driver.blockManager.port=7079": "spark.driver.blockManager.port=0",
    }
    pattern = "|".join(map(re.escape, here))
    return headrace(*(re.sub(pattern, lambda match: here[match[0]], word) for word in words), "--gateway", "gateway.invalid:7433")


def wait_for_pods(server: ApiServer, driver: OwnedProcess, count: int) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while len(server.created("Pod")) < count:
        assert driver.exit_code() is None, driver.tail()
        assert time.monotonic() < deadline, driver.tail()
        time.sleep(0.1)
