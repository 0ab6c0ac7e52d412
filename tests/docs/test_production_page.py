"""The quotes of the page about production are valid, and its commands do what it says, in a folder in place of the host's."""

import os
import re
import shutil
import subprocess
import sys
import venv
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from types import MappingProxyType

import pytest
from tests.distributions.registry import fill
from tests.distributions.wheels import build
from tests.docs.pages import blocks, codes, table
from tests.engine.test_backups import STEPS, Query, check

from headrace.configuration import read_env_file
from headrace.deploy import load_deployment, missing, read_graphs
from headrace.gateway import load_config

PAGE = "docs/run/production.md"
TOKENS = ("HEADRACE_TOKEN", "ORDERS_TOKEN", "TOTALS_TOKEN", "PIPELINE_TOKEN", "OPERATOR_TOKEN")
APP = """
from headrace.pipelines import Pipeline

app = Pipeline("orders")
app.source("orders/*").sink("totals")
"""


@pytest.fixture
def host(tmp_path: Path) -> Path:
    """A folder with the files of the page, in place of the root of a host."""
    etc = tmp_path / "etc/headrace"
    etc.mkdir(parents=True)
    (etc / "tokens.env").write_text("".join(f"{name}=secret of {name}\n" for name in TOKENS))
    deployment, gateway = (block.text for block in blocks(PAGE, "toml"))
    (etc / "deploy.toml").write_text(moved(deployment, tmp_path))
    (etc / "gateway.toml").write_text(gateway)
    (etc / "app.py").write_text(APP)
    return tmp_path


def moved(text: str, host: Path) -> str:
    """A text with the folders of a host below another one."""
    return re.sub(r"(?<![\w.-])/(etc|var|srv|opt)/", rf"{host}/\1/", text)


def test_the_deployment_is_valid_and_whole(host: Path) -> None:
    deployment = load_deployment(host / "etc/headrace/deploy.toml")
    assert list(missing(deployment, read_graphs(deployment)["pipeline"])) == []


def test_each_token_has_the_rights_of_the_table_and_no_others(host: Path) -> None:
    etc = host / "etc/headrace"
    tokens = {token.name: token for token in load_config(etc / "gateway.toml", environ=read_env_file(etc / "tokens.env")).tokens}
    rows = {codes(row[0])[0]: set(codes(row[2])) for row in table(PAGE, "Least rights")}
    rights = ("sources", "sinks", "pipelines", "reads", "writes", "admin", "control", "peek", "supervise")
    assert {name: {right for right in rights if getattr(token, right)} for name, token in tokens.items()} == rows


def test_the_unit_is_valid(host: Path) -> None:
    (unit,) = blocks(PAGE, "ini")
    settings = dict(line.split("=", 1) for line in unit.text.splitlines() if "=" in line)
    for line in table(PAGE, "The unit"):
        name, _, value = codes(line[0])[0].partition("=")
        assert not value or settings[name] == value
        assert name in settings
    assert settings["ExecStart"].startswith("/usr/bin/nohup ")
    assert f"/usr/bin/nohup {settings['ExecStartPre']}" == f"{settings['ExecStart']} --dry-run"
    assert {"User", "LimitNOFILE", "Restart"} <= settings.keys()
    # Not every machine has systemd; it would find misspelled names in addition.
    if (verifier := shutil.which("systemd-analyze")) is not None:
        file = host / "headrace.service"
        program = Path(sys.executable).with_name("headrace")
        file.write_text(unit.text.replace("/opt/headrace/bin/headrace", str(program)))
        done = subprocess.run([verifier, "verify", file], capture_output=True, text=True, timeout=300, check=False)
        assert [line for line in done.stderr.splitlines() if "headrace.service" in line] == []


def test_an_upgrade_that_is_rolled_back_continues_where_the_backup_was_taken(host: Path) -> None:
    """The commands of systemd, and of a user that is not there, are left out."""
    query = Query(host / "var/lib/headrace/checkpoints/orders")
    for step in STEPS[:4]:
        query.run(step)
    (host / "var/backups/headrace").mkdir(parents=True)
    old, new = version("headrace"), "9.0.0"
    for release in (old, new):
        (host / f"opt/headrace-{release}/bin").mkdir(parents=True)
        program = host / f"opt/headrace-{release}/bin/headrace"
        program.write_text(f'#!/bin/sh\n[ "$1" = doctor ] || exec {sys.executable} -m headrace.cli "$@"\necho {release}\n')
        program.chmod(0o755)
    (host / "opt/headrace").symlink_to(host / f"opt/headrace-{old}")
    upgrade, rollback = (block.text for block in blocks(PAGE, "bash") if block.heading == "Upgrade and rollback")

    done = shell(host, upgrade, {"NEW": new})
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == new, "headrace doctor of the new release"
    for step in STEPS[4:]:
        query.run(step)
    query.commits.close()

    done = shell(host, rollback)
    assert done.returncode == 0, done.stderr
    assert (host / "opt/headrace").resolve().name == f"headrace-{old}"
    assert check(host / "var/lib/headrace/checkpoints/orders", query.history) == 3
    assert (host / "var/lib/headrace/checkpoints/orders.after-upgrade").is_dir()


@pytest.mark.in_turn(4, 6)
@pytest.mark.timeout(1200)
def test_a_host_without_a_registry_installs_the_wheels_that_were_made_elsewhere(tmp_path: Path) -> None:
    """In this registry, one of the distributions is there as sources only, as Spark is on a public one."""
    fill(tmp_path / "registry", build(tmp_path / "built"), sources=["headrace-base"], wanted=["headrace", "hatchling"])
    (tmp_path / "opt").mkdir()
    # The environment of the tests has no pip.
    venv.create(tmp_path / "python", with_pip=True, symlinks=True)
    (block,) = (block.text for block in blocks(PAGE, "bash") if block.heading == "Packages")
    elsewhere, on_the_host = block.split("\n", 1)
    quick = {"PIP_NO_COMPILE": "1", "PIP_DISABLE_PIP_VERSION_CHECK": "1", "PIP_CACHE_DIR": str(tmp_path / "cache")}
    registry = {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(tmp_path / "registry")}

    done = shell(tmp_path, elsewhere, quick | registry, tmp_path / "python/bin")
    assert done.returncode == 0, done.stdout + done.stderr
    shutil.rmtree(tmp_path / "registry")
    assert {path.suffix for path in (tmp_path / "wheels").iterdir()} == {".whl"}

    done = shell(tmp_path, on_the_host, quick, tmp_path / "python/bin")
    assert done.returncode == 0, done.stdout + done.stderr
    assert (tmp_path / "opt/headrace").resolve().name == f"headrace-{version('headrace')}"
    done = shell(tmp_path, f"{tmp_path}/opt/headrace/bin/pip check; {tmp_path}/opt/headrace/bin/headrace --version", quick)
    assert done.stdout.splitlines() == ["No broken requirements found.", f"headrace {version('headrace')}"], done.stderr


def shell(
    host: Path, text: str, variables: Mapping[str, str] = MappingProxyType({}), *first: Path
) -> "subprocess.CompletedProcess[str]":
    """Runs what the page has, in the folder of the host, with folders that precede others of the path."""
    lines = [line for line in moved(text, host).splitlines() if not line.startswith(("systemctl", "chown"))]
    plain = {name: value for name, value in os.environ.items() if name not in ("SPARK_HOME", "SPARK_CONF_DIR", "HADOOP_CONF_DIR")}
    # Whoever follows the page has no headrace on the path.
    path = [folder for folder in plain["PATH"].split(os.pathsep) if not Path(folder, "headrace").exists()]
    plain |= {"PATH": os.pathsep.join([*map(str, first), *path]), **variables}
    return subprocess.run(
        ["bash", "-euc", "\n".join(lines)],
        cwd=host,
        env=plain,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
