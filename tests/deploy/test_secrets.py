"""The secrets of a deployment: where they come from, and that each process has its own only."""

import os
import stat
from collections.abc import Mapping
from pathlib import Path

import pytest
from click.testing import CliRunner
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headrace.cli import cli
from headrace.configuration import ConfigurationError
from headrace.connectors.configuration import load_connector
from headrace.contract import token_files
from headrace.deploy import ApplicationGraph, load_deployment, plan

APP = """
from headrace.pipelines import Pipeline

app = Pipeline("orders")
app.source("orders/*").sink("totals")
"""
PROCESSES = ("gateway", "orders", "totals", "pipeline", "audit", "program")
WAYS = ("variable", "token_file", "none")


def table(name: str, way: str) -> str:
    """The table `gateway` of a process."""
    given = {"variable": f'token = "${{{name.upper()}_TOKEN}}"', "token_file": f'token_file = "{name}.token"', "none": ""}
    return f"gateway = {{ {given[way]} }}"


def deployment_text(ways: Mapping[str, str], env_file: bool) -> str:
    """A deployment whose processes have their tokens in these ways."""
    return f"""
{'env_file = "secrets.env"' if env_file else ""}

[gateway]
config = "gateway.toml"

[connectors.orders]
connector = "file"
path = "${{IN}}/*"
source = "orders"
{table("orders", ways["orders"])}

[connectors.totals]
connector = "file-sink"
path = "out"
sink = "totals"
format = "json"
{table("totals", ways["totals"])}

[pipeline]
app = "app.py"
variables = ["PASSWORD"]
{table("pipeline", ways["pipeline"])}

[application.audit]
app = "app.py"
{table("audit", ways["audit"])}

[query.program]
program = "app.py"
{table("program", ways["program"])}
"""


GATEWAY = """
listen = "127.0.0.1:0"

[[tokens]]
name = "supervisor"
token = "${HEADRACE_TOKEN}"
supervise = true
"""


def written(folder: Path, text: str, env_file: Mapping[str, str]) -> Path:
    """The file of a deployment, with all that it names."""
    (folder / "app.py").write_text(APP)
    (folder / "gateway.toml").write_text(GATEWAY)
    for name in PROCESSES:
        (folder / f"{name}.token").write_text(f"file-{name}\n")
        (folder / f"{name}.token").chmod(0o600)
    (folder / "secrets.env").write_text("".join(f"{name}={value}\n" for name, value in env_file.items()))
    (folder / "deploy.toml").write_text(text)
    return folder / "deploy.toml"


GRAPHS = {name: ApplicationGraph(f"{name}s", ["orders/*"], ["totals"], []) for name in ("pipeline", "audit")}
variables = ["HEADRACE_TOKEN", "IN", "PASSWORD", *(f"{name.upper()}_TOKEN" for name in PROCESSES[1:])]


@settings(max_examples=60, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.fixed_dictionaries({name: st.sampled_from(WAYS) for name in PROCESSES[1:]}),
    st.sets(st.sampled_from(variables)),
    st.booleans(),
)
def test_no_process_has_a_secret_of_another_one_in_its_environment(
    tmp_path: Path, ways: dict[str, str], in_file: set[str], in_both: bool
) -> None:
    """Whether the variables are in the file, in the environment, or in both with different values."""
    with pytest.MonkeyPatch.context() as patch:
        path = written(tmp_path, deployment_text(ways, bool(in_file)), {name: f"of-file-{name}" for name in in_file})
        for name in [*variables, "HEADRACE_TOKEN_FILE"]:
            patch.delenv(name, raising=False)
        # A variable that nothing names is no secret of anybody, as far as is known.
        named = [name for name in variables if ways.get(name.removesuffix("_TOKEN").lower(), "variable") == "variable"]
        for name in named:
            if name not in in_file or in_both:
                patch.setenv(name, f"of-environment-{name}")
        patch.setenv("OTHER", "kept")
        deployment = load_deployment(path)
        planned = plan(deployment, GRAPHS)
    own = {
        "gateway": {"HEADRACE_TOKEN"},
        "orders": {"IN"},
        "totals": set(),
        "pipeline": {"PASSWORD"},
        "audit": set(),
        "program": set(),
    }
    for role in (planned.gateway, *planned.others):
        mine = set(own[role.name])
        way = ways.get(role.name, "gateway")
        if way != "gateway":
            # Without a token of its own, the whole deployment's token is.
            mine.add("HEADRACE_TOKEN" if way == "none" else f"{role.name.upper()}_TOKEN")
        found = {value for value in role.environ.values() if value.startswith(("of-file-", "of-environment-", "file-"))}
        assert {value.rpartition("-")[2] for value in found} <= mine, role.name
        assert role.environ["OTHER"] == "kept"
        assert role.environ["PATH"] == os.environ["PATH"]
        token, file = role.environ.get("HEADRACE_TOKEN"), role.environ.get("HEADRACE_TOKEN_FILE")
        if way == "token_file":
            assert (token, file) == (None, str(tmp_path / f"{role.name}.token"))
        elif way == "variable":
            assert (token or "").rpartition("-")[2] == f"{role.name.upper()}_TOKEN"
            assert (token or "").startswith("of-file-") == (f"{role.name.upper()}_TOKEN" in in_file)
        elif way == "none":
            assert (token or "").startswith("of-file-") == ("HEADRACE_TOKEN" in in_file)
        if role.name == "pipeline":
            assert role.environ["PASSWORD"].startswith("of-file-") == ("PASSWORD" in in_file)
        line = " ".join(role.command("127.0.0.1:1"))
        assert not any(word in line for word in ("of-file-", "of-environment-", "file-orders", "file-totals"))


def test_a_program_finds_the_files_of_its_table_in_its_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It has no options, and may run in another folder."""
    monkeypatch.chdir(tmp_path)
    files = 'tls_ca = "ca.pem", tls_cert = "client.pem", tls_key = "client.key"'
    text = deployment_text(dict.fromkeys(PROCESSES, "token_file"), True).replace('"program.token"', f'"program.token", {files}')
    planned = plan(load_deployment(written(tmp_path, text, {"IN": "in", "HEADRACE_TOKEN": "x"})), GRAPHS)
    environ = {role.name: role.environ for role in planned.others}
    names = {"HEADRACE_TLS_CA": "ca.pem", "HEADRACE_TLS_CERT": "client.pem", "HEADRACE_TLS_KEY": "client.key"}
    assert {name: environ["program"].get(name) for name in names} == {name: str(tmp_path / file) for name, file in names.items()}
    assert not names.keys() & environ["pipeline"].keys()


def test_a_connector_finds_its_variables_where_its_supervisor_did(tmp_path: Path) -> None:
    path = written(tmp_path, deployment_text(dict.fromkeys(PROCESSES, "variable"), True), {"IN": "in", "ORDERS_TOKEN": "of file"})
    configured = load_connector(f"{path}:orders", {"ORDERS_TOKEN": "of environment"})
    assert configured.gateway.token is not None
    assert configured.gateway.token.get_secret_value() == "of file"


def test_a_dry_run_shows_no_secret(tmp_path: Path) -> None:
    values = dict.fromkeys(variables, "hidden")
    path = written(tmp_path, deployment_text(dict.fromkeys(PROCESSES, "variable"), True), values)
    (tmp_path / "other.py").write_text(APP.replace('"orders"', '"audit"'))
    path.write_text(path.read_text().replace('[application.audit]\napp = "app.py"', '[application.audit]\napp = "other.py"'))
    for words in ([], ["--json"]):
        result = CliRunner().invoke(cli, ["run", str(path), "--dry-run", *words])
        assert result.exit_code == 0, result.output
        assert "hidden" not in result.output


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        (
            "orders.token",
            "nowhere.token",
            "deploy.toml:{line}: connectors.orders.gateway.token_file: {folder}/nowhere.token: there is no",
        ),
        ("program.token", "app.py", "deploy.toml:{line}: query.program.gateway.token_file: {folder}/app.py contains 4 lines"),
        ("secrets.env", "app.py", "deploy.toml:2: env_file: {folder}/app.py:2: write NAME=value"),
        ("secrets.env", "nowhere.env", "deploy.toml:2: env_file: {folder}/nowhere.env: there is no such file"),
        ('token_file = "audit.token"', 'token_file = "audit.token", token = "x"', "token and token_file exclude each other"),
        ("orders.token", "/dev/fd/0", "use a descriptor from 3 on"),
        (
            'token_file = "program.token"',
            "tls = true",
            "query.program.gateway.tls: tls alone is not enough for Spark: set",
        ),
        ('token_file = "audit.token"', "tls = true", "application.audit.gateway.tls: tls alone is not enough for Spark"),
    ],
)
def test_what_is_wrong_is_named_with_its_line(tmp_path: Path, old: str, new: str, said: str) -> None:
    text = deployment_text(dict.fromkeys(PROCESSES, "token_file"), True).replace(old, new)
    path = written(tmp_path, text, {"IN": "in", "HEADRACE_TOKEN": "x"})
    (line, *_) = [number for number, found in enumerate(text.splitlines(), 1) if f'token_file = "{new}"' in found] or [0]
    with pytest.raises(ConfigurationError) as refused:
        load_deployment(path, {})
    assert said.format(line=line, folder=tmp_path) in str(refused.value)


def test_a_token_in_a_pipe_reaches_the_process_of_its_table_only(tmp_path: Path) -> None:
    """At each of its starts, and after a reload, which read the deployment again."""
    token_files._read_once.clear()
    reads, writes = os.pipe()
    os.write(writes, b"of the pipe\n")
    os.close(writes)
    try:
        text = deployment_text(dict.fromkeys(PROCESSES, "token_file"), True).replace("orders.token", f"/dev/fd/{reads}")
        path = written(tmp_path, text, {"IN": "in", "HEADRACE_TOKEN": "x"})
        for _ in range(2):
            planned = plan(load_deployment(path), GRAPHS)
            given = {role.name: role.inherits for role in planned.others}
            assert given == {"orders": (reads,), "totals": (), "pipeline": (), "audit": (), "program": ()}
            assert stat.S_ISREG(os.fstat(reads).st_mode), "each process can read it again"
            assert "of the pipe" not in {value for role in planned.others for value in role.environ.values()}
    finally:
        os.close(reads)
