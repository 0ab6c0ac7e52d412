"""A deployment with least rights, one connector of which is in Go: all tokens are replaced while it runs, as the page tells.

SIGHUP reaches the supervisor, which reads the new tokens, and each process, which it ends none of.
"""

import asyncio
import os
import signal
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import psutil
import pytest
from tests.connectors.manifests import add
from tests.deploy.test_end_to_end import SPARK_STARTS_WITHIN_S, written
from tests.deploy.test_processes import DEADLINE_S, pids, running
from tests.docs.pages import blocks
from tests.sdk.go.toolchain import ROOT, toolchain

from headrace.gateway import token_digest
from headrace.pipelines import Pipeline

RIGHTS = {
    "supervisor": 'supervise = ["deploy.toml"]',
    "lines": 'sources = ["lines/*"]',
    "more": 'sources = ["more/*"]',
    "counts": 'sinks = ["counts"]',
    "copies": 'sinks = ["copies"]',
    "pipeline": 'pipelines = ["*"]\nreads = ["lines/*"]\nwrites = ["counts"]',
    "operator": "admin = true",
    "audit": 'peek = ["lines/*"]',
}
IN_FILES = ("supervisor", "lines", "counts", "pipeline")
IN_ENVIRONMENT = ("more", "operator")
IN_ENV_FILE = ("copies", "audit")
OWN = {"gateway": {"operator"}, **{name: {name} for name in ("lines", "more", "counts", "copies", "pipeline")}}
"""Whose tokens may be in the environment of a process: the gateway's configuration names one that is in no file."""

DEPLOYMENT = """
env_file = "secrets.env"

[gateway]
config = "gateway.toml"

[connectors.lines]
connector = "go-lines"
source = "lines"
gateway = { token_file = "lines.token" }

[connectors.more]
connector = "file"
path = "more/*.txt"
source = "more"
gateway = { token = "${MORE_TOKEN}" }

[connectors.counts]
connector = "file-sink"
path = "out"
sink = "counts"
format = "lines"
gateway = { token_file = "counts.token" }

[connectors.copies]
connector = "file-sink"
path = "copies"
sink = "copies"
gateway = { token = "${COPIES_TOKEN}" }

[pipeline]
app = "app.py"
master = "local[2]"
parallelism = 1
conf = { "spark.ui.enabled" = false }
gateway = { token_file = "pipeline.token" }
"""

MANIFEST = """
manifest_version = 1
name = "{name}"
kind = "source"
replayable = true
summary = "the lines of a file"
version = "1.0.0"
language = "go"
command = ["./run"]

[parameters.source]
type = "text"
required = true
description = "The stream is named SOURCE/0."
examples = ["lines"]
"""


def secret(name: str, number: int) -> str:
    return f"secret-of-{name}-{number}"


def replace(file: Path, text: str) -> None:
    """Replaces a file at once, as those do who rotate secrets."""
    new = file.with_name(f"{file.name}.new")
    new.write_text(text)
    new.chmod(0o600)
    new.replace(file)


def configure(folder: Path, *numbers: int) -> None:
    """Lets the gateway take these tokens of each name."""
    tables = []
    for name, rights in RIGHTS.items():
        # Two that are not replaced: one is named by the configuration itself.
        kept = name in ("more", "audit")
        digests = [token_digest(secret(name, number)) for number in ((1,) if kept else numbers)]
        token = 'token = "${OPERATOR_TOKEN}"' if name == "operator" else f"sha256 = {digests}"
        tables.append(f'[[tokens]]\nname = "{name}"\n{token}\n{rights}\n')
    replace(folder / "gateway.toml", 'listen = "127.0.0.1:0"\n' + "\n".join(tables))


def distribute(folder: Path, number: int) -> None:
    for name in IN_FILES:
        replace(folder / f"{name}.token", secret(name, number) + "\n")
    copies, audit = secret("copies", number), secret("audit", 1)
    replace(folder / "secrets.env", f"COPIES_TOKEN={copies}\nAUDIT_TOKEN={audit}\n")


def gateway_log(folder: Path) -> str:
    return (folder / "deploy.run/gateway.log").read_text()


async def until(holds: Callable[[], bool], within_s: float = DEADLINE_S) -> None:
    async with asyncio.timeout(within_s):
        while not holds():  # noqa: ASYNC110 - there is no event to wait on
            await asyncio.sleep(0.05)


def restarts(document: Mapping[str, Any]) -> dict[str, int]:
    return {process["name"]: process["restarts"] for process in document["processes"]}


def in_environments(processes: Mapping[str, int]) -> dict[str, set[str]]:
    """Whose secrets are in the environment, or the command line, of each process and all that it has started."""
    found: dict[str, set[str]] = {name: set() for name in processes}
    by_session = {pid: name for name, pid in processes.items()}
    for pid in psutil.pids():
        try:
            name = by_session.get(os.getsid(pid))
            if name is None:
                continue
            texts = Path(f"/proc/{pid}/environ").read_bytes() + Path(f"/proc/{pid}/cmdline").read_bytes()
        except OSError:
            continue  # It has ended meanwhile.
        found[name] |= {of for of in RIGHTS if f"secret-of-{of}-".encode() in texts}
    return found


@pytest.mark.timeout(900)
async def test_all_tokens_are_replaced_and_nothing_is_lost_nor_refused(tmp_path: Path) -> None:
    program = blocks("README.md", "python")[-1].text
    assert Pipeline.__name__ in program
    (tmp_path / "app.py").write_text(program)
    (tmp_path / "deploy.toml").write_text(DEPLOYMENT)
    (tmp_path / "in").mkdir()
    lines = tmp_path / "in" / "lines.txt"
    lines.write_text("one two one\n")
    # Before anything has a deadline: without its cache, Go compiles all of gRPC.
    program_in_go = toolchain("sdk/go").build(ROOT / "sdk/go/examples/lines-source")
    connectors = tmp_path / "connectors"
    add(connectors, "go-lines", MANIFEST, run=f"#!/bin/sh\nexec '{program_in_go}' '{lines}'\n")
    configure(tmp_path, 1)
    distribute(tmp_path, 1)
    variables = {f"{name.upper()}_TOKEN": secret(name, 1) for name in IN_ENVIRONMENT}
    variables |= {"HEADRACE_TOKEN_FILE": str(tmp_path / "supervisor.token"), "HEADRACE_CONNECTORS": str(connectors)}
    async with running(tmp_path, **variables) as run:
        before = await run.until(lambda document: set(pids(document)) == set(OWN) and all(pids(document).values()))
        await until(lambda: len(written(tmp_path)) == 3, SPARK_STARTS_WITHIN_S)
        found = in_environments(pids(before))
        assert {name: of - OWN[name] for name, of in found.items()} == {name: set() for name in OWN}
        assert found["more"] == {"more"}, "it looks for what there is"

        configure(tmp_path, 1, 2)
        await until(lambda: gateway_log(tmp_path).count('"tokens replaced"') == 1)
        distribute(tmp_path, 2)
        for pid in (run.process.pid, *pids(before).values()):
            os.kill(pid, signal.SIGHUP)
        copies = await run.until(
            lambda document: next(p for p in document["processes"] if p["name"] == "copies")["restarts"] == 1
        )
        await until(lambda: gateway_log(tmp_path).count('"sink": "copies"') >= 2)
        configure(tmp_path, 2)
        await until(lambda: gateway_log(tmp_path).count('"tokens replaced"') == 2)

        with lines.open("a") as file:
            file.write("two one\n")
        await until(lambda: len(written(tmp_path)) == 5, SPARK_STARTS_WITHIN_S)
        after = await run.until(lambda document: document.get("condition") == "runs")
        same = {name for name, pid in pids(after).items() if pid == pids(before)[name]}
        started_again = {process["name"]: process["reason"] for process in after["processes"] if process["name"] not in same}
        # Only what has its token in a variable, by SIGHUP.
        assert started_again.keys() == {"copies"}, (started_again, (tmp_path / "deploy.run/lines.log").read_text()[-2_000:])
        assert pids(after)["copies"] == pids(copies)["copies"]
        run.process.terminate()
        assert await run.end() == 0
    assert Counter(written(tmp_path)) == Counter(["one 1", "two 1", "one 2", "two 2", "one 3"])
    refused = [line for line in gateway_log(tmp_path).splitlines() if "refused" in line]
    assert refused == []
