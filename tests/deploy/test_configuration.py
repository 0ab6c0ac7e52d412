"""Deployment files: their content, the errors for invalid ones, and the command lines that they lead to."""

from collections.abc import Mapping
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from headrace.cli import cli
from headrace.configuration import ConfigurationError
from headrace.connectors import Parameters
from headrace.contract.settings import OF_GATEWAY, OF_QUERY, OF_RUN, VARIABLES, Setting
from headrace.deploy import (
    ApplicationGraph,
    Deployment,
    Flow,
    GatewayOptions,
    Kind,
    Known,
    PipelineOptions,
    Plan,
    QueryOptions,
    Role,
    load_deployment,
    missing,
    plan,
    read_graphs,
)

ORDERS = {"pipeline": ApplicationGraph("orders", ["lines/*"], ["count"], [])}
WHOLE = """
folder = "state"

[gateway]
listen = "127.0.0.1:0"
buffer_bytes = "64MiB"
insecure = true

[connectors.lines]
connector = "file"
path = "in/*.txt"
source = "lines"

[connectors.counts]
connector = "file-sink"
path = "out"
sink = "counts"
instance = "blue"

[connectors.far]
connector = "stdout-sink"
sink = "alerts"
gateway = { address = "far:7433", token = "${FAR_TOKEN:-none}" }

[pipeline]
app = "app.py:app"
checkpoint = "checkpoints/one"
master = "local[2]"
parallelism = 2
worker_memory = "2gb"
available_now = true
verbose = true
drop_states = "old"
migrate_states = ["sums"]
finish = false
options = { maxMessagesPerTrigger = 1000 }
conf = { "spark.ui.enabled" = false, "spark.app.name" = "x y" }
gateway = { token = "secret", tls_ca = "ca.pem" }
"""

APP = """
from headrace.pipelines import Pipeline

app = Pipeline("orders")
app.source("lines/*").sink("count")
"""


def load(folder: Path, text: str) -> Deployment:
    (folder / "app.py").write_text(APP)
    (folder / "deploy.toml").write_text(text)
    return load_deployment(folder / "deploy.toml", {})


def problems(folder: Path, text: str) -> list[str]:
    with pytest.raises(ConfigurationError) as caught:
        load(folder, text)
    return [line.removeprefix(f"{folder}/") for line in str(caught.value).splitlines()]


def role(planned: Plan, name: str) -> Role:
    return next(role for role in (planned.gateway, *planned.others) if role.name == name)


def words(role: Role, address: str | None) -> list[str]:
    """A command line after the interpreter and the module."""
    command = role.command(address)
    assert command[1:3] == ["-m", "headrace.cli.under_supervisor"]
    return command[3:]


# Command lines


def test_the_command_lines_of_a_deployment(tmp_path: Path) -> None:
    deployment = load(tmp_path, WHOLE)
    planned = plan(deployment, ORDERS)
    file = tmp_path / "deploy.toml"
    assert (deployment.folder, planned.cwd) == (tmp_path / "state", tmp_path)
    options = ["--insecure", "--buffer-bytes", "64MiB"]
    gateway = role(planned, "gateway")
    assert words(gateway, None) == ["gateway", "--listen", "127.0.0.1:0", *options]
    assert words(gateway, "127.0.0.1:9") == ["gateway", "--listen", "127.0.0.1:9", *options]
    connector = ["connector", "run", "-c"]
    assert words(role(planned, "lines"), "a:1") == [*connector, f"{file}:lines", "--verbose", "--gateway", "a:1"]
    assert words(role(planned, "far"), "a:1") == [*connector, f"{file}:far", "--verbose"]
    assert words(role(planned, "pipeline"), "a:1") == [
        *("run", "app.py:app", "--gateway", "a:1", "--checkpoint", "checkpoints/one", "--master", "local[2]"),
        *("--parallelism", "2", "--available-now", "--worker-memory", "2gb", "--no-finish", "--drop-states", "old"),
        *("--migrate-states", "sums", "--verbose", "--option", "maxMessagesPerTrigger=1000"),
        *("--conf", "spark.ui.enabled=false", "--conf", "spark.app.name=x y"),
        *("--tls-ca", str(tmp_path / "ca.pem")),
    ]
    assert role(planned, "pipeline").environ["HEADRACE_TOKEN"] == "secret"


def options_of(*path: str) -> set[str]:
    """The options of a command, as keys of configuration files."""
    command: click.Command = cli
    for word in path:
        assert isinstance(command, click.Group)
        found = command.get_command(click.Context(command), word)
        assert found is not None
        command = found
    return {parameter.name or "" for parameter in command.params if isinstance(parameter, click.Option)}


def test_the_tables_have_all_options_of_the_commands() -> None:
    assert set(GatewayOptions.model_fields) == options_of("gateway") - {"env_file", "ready_file", "check", "print_config"}
    connection = {"gateway", "token", "token_file", "tls", "tls_ca", "tls_cert", "tls_key"}
    own, of_the_command = {"app", "gateway", "variables"}, {"dry_run", "as_json", "log_format", "figures"}
    assert set(PipelineOptions.model_fields) - own == options_of("run") - connection - of_the_command


def test_what_the_gateway_knows_of_each(tmp_path: Path) -> None:
    planned = plan(load(tmp_path, WHOLE), ORDERS)
    lines, counts, far, pipeline = planned.others
    assert [(role.name, role.kind, role.what, role.may_end) for role in planned.others] == [
        ("lines", Kind.SOURCE, "file", True),
        ("counts", Kind.SINK, "file-sink", False),
        ("far", Kind.SINK, "stdout-sink", False),
        ("pipeline", Kind.PIPELINE, "app.py:app", True),
    ]
    nothing = Known()
    everything = Known(
        connected=frozenset({"lines"}),
        flows={"lines": Flow(3, 1_000, 7)},
        sinks={"counts": frozenset({"blue"})},
        refused={"counts": 2},
        pipelines=frozenset({"orders"}),
    )
    for each in (lines, counts, pipeline):
        assert (each.is_connected(nothing), each.is_connected(everything)) == (False, True)
    assert far.is_connected(everything) is None
    assert lines.detail(everything) == "3 streams, 1,000 acknowledged, lag 7"
    assert counts.detail(everything) == "2 messages refused"
    trouble = Known(flows={"lines": Flow(3, 0, 0, "stream lines/0: lost")})
    assert lines.detail(trouble) == "stream lines/0: lost"


# Mistakes

LINES = '[connectors.lines]\nconnector = "file"\npath = "x"\nsource = "lines"\n'


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "deploy.toml: nothing to run: add a table [connectors.NAME], [pipeline], [application.NAME] or [query.NAME]"),
        (f"[gatway]\n{LINES}", "deploy.toml:1: gatway: unknown key; did you mean gateway?"),
        (f'[gateway]\nlisen = "x"\n{LINES}', "deploy.toml:2: gateway.lisen: unknown key; did you mean listen?"),
        (
            f'[gateway]\nlisten = "nowhere"\n{LINES}',
            "deploy.toml:2: gateway.listen: 'nowhere' is not host:port; "
            "write for instance 127.0.0.1:7433, 0.0.0.0:7433 or [::1]:7433",
        ),
        (f'[gateway]\nbuffer_bytes = "1 cow"\n{LINES}', "deploy.toml:2: gateway.buffer_bytes: '1 cow' is not a size"),
        (f'[gateway]\nconfig = "gw.toml"\n{LINES}', "deploy.toml:2: gateway.config: {folder}/gw.toml: cannot be read"),
        (LINES + "path2 = 1", "deploy.toml:5: connectors.lines.path2: unknown key; did you mean path?"),
        (LINES.replace("lines]", "gateway]"), "deploy.toml:1: connectors.gateway: the name gateway is reserved"),
        (LINES.replace("lines]", "supervisor]"), "deploy.toml:1: connectors.supervisor: the name supervisor is reserved"),
        (
            LINES.replace("lines]", '"a b"]'),
            "deploy.toml:1: connectors.a b: the name of a process (connector) may contain letters",
        ),
        (LINES + '[pipeline]\napp = "ap.py"', "deploy.toml:6: pipeline.app: there is no file {folder}/ap.py"),
        (LINES + "[pipeline]\nparalelism = 1", "deploy.toml:6: pipeline.paralelism: unknown key; did you mean parallelism?"),
        (
            LINES + '[pipeline]\napp = "app.py"\navailable_now = true\ntrigger_interval = "5s"',
            "deploy.toml:5: pipeline: available_now and trigger_interval cannot be combined",
        ),
        (
            LINES + '[pipeline]\napp = "app.py"\navailable_now = true\nreal_time = true',
            "deploy.toml:5: pipeline: available_now and real_time cannot be combined",
        ),
        (
            LINES + '[pipeline]\napp = "app.py"\nreal_time_workers = 2',
            "deploy.toml:5: pipeline: real_time_workers is for real-time mode: add real_time",
        ),
        (LINES + '[pipeline]\napp = "app.py"\nconf = 3', "deploy.toml:7: pipeline.conf: must be a table"),
    ],
)
def test_a_problem_says_where_it_is_and_what_to_do(tmp_path: Path, text: str, told: str) -> None:
    assert any(problem.startswith(told.format(folder=tmp_path)) for problem in problems(tmp_path, text)), problems(tmp_path, text)


def test_the_application_is_looked_at_before_anything_starts(tmp_path: Path) -> None:
    deployment = load(tmp_path, WHOLE)
    graph = read_graphs(deployment)["pipeline"]
    assert (graph.pipeline, graph.streams, graph.sinks) == ("orders", ["lines/*"], ["count"])
    assert list(missing(deployment, graph)) == [
        "no connector here serves the sink count that the application writes to; did you mean counts?"
    ]
    (tmp_path / "app.py").write_text("import not_there\n")
    result = CliRunner().invoke(cli, ["run", str(tmp_path / "deploy.toml")])
    assert result.exit_code == 2
    assert "Error: pipeline: app.py cannot be imported: ModuleNotFoundError: No module named 'not_there'" in result.stderr


def test_a_trigger_interval_is_an_option_of_the_application(tmp_path: Path) -> None:
    deployment = load(tmp_path, WHOLE.replace("available_now = true", 'trigger_interval = "5 s"'))
    command = words(role(plan(deployment, ORDERS), "pipeline"), "a:1")
    assert command[command.index("--trigger-interval") + 1] == "5 s"
    assert "--available-now" not in command
    in_real_time = load(tmp_path, WHOLE.replace("available_now = true", "real_time = true\nreal_time_workers = 4"))
    command = words(role(plan(in_real_time, ORDERS), "pipeline"), "a:1")
    assert "--real-time" in command
    assert command[command.index("--real-time-workers") + 1] == "4"


def test_options_of_an_application_are_not_lost_silently(tmp_path: Path) -> None:
    load(tmp_path, WHOLE)
    result = CliRunner().invoke(cli, ["run", str(tmp_path / "deploy.toml"), "--conf", "a=b"])
    assert result.exit_code == 2
    assert "--conf is not allowed with a deployment file; set it in the table [pipeline] of" in result.stderr


def test_a_dry_run_shows_what_would_be_run(tmp_path: Path) -> None:
    load(tmp_path, WHOLE)
    result = CliRunner().invoke(cli, ["run", str(tmp_path / "deploy.toml"), "--dry-run"])
    assert result.exit_code == 0
    rows = [line.split() for line in result.output.splitlines()]
    assert ["lines", "source", "file"] in rows
    assert ["pipeline", "pipeline", "app.py:app"] in rows
    assert "note: no connector here serves the sink count" in result.output


def test_the_format_of_logs_reaches_every_process(tmp_path: Path) -> None:
    deployment = load(tmp_path, 'log_format = "json"\n' + WHOLE)
    planned = plan(deployment, ORDERS)
    assert {role.environ["HEADRACE_LOG_FORMAT"] for role in (planned.gateway, *planned.others)} == {"json"}
    before = plan(load(tmp_path, WHOLE), ORDERS)
    # A reload restarts what it changes; the gateway logs JSON anyway.
    assert all(one.settings != other.settings for one, other in zip(planned.others, before.others, strict=True))
    assert planned.gateway.settings == before.gateway.settings
    with pytest.raises(ConfigurationError, match="log_format: must be 'console' or 'json'"):
        load(tmp_path, 'log_format = "xml"\n' + WHOLE)


@pytest.mark.parametrize(
    ("table", "settings"),
    [
        (GatewayOptions, OF_GATEWAY),
        (PipelineOptions, {**OF_RUN, VARIABLES.name: VARIABLES}),
        (QueryOptions, OF_QUERY),
    ],
)
def test_every_key_of_a_table_is_a_declared_setting_with_its_text(
    table: type[Parameters], settings: Mapping[str, Setting]
) -> None:
    texts = {name: field.description for name, field in table.model_fields.items() if name not in ("app", "gateway")}
    assert texts == {name: setting.description for name, setting in settings.items()}
