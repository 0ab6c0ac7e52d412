"""`headrace connector` over connectors of every kind: options from what they declare, described, checked."""

import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result
from tests.cli.json_shape import result_of
from tests.connectors.queue_connector import CONNECTOR, PASSWORD, Queue, registered

import headrace.connectors
from headrace.cli import cli
from headrace.connectors import CONNECTORS, Connector, Parameters, declared

GIVEN = ("--queue", "orders", "--source", "s", "--password", PASSWORD)
GATEWAY = ("--gateway", "127.0.0.1:1")


@pytest.fixture(autouse=True)
def queue() -> Iterator[None]:
    with registered(CONNECTOR):
        yield


def connector(*arguments: str | Path, **environ: str) -> Result:
    return CliRunner().invoke(cli, ["connector", *map(str, arguments)], env={"COLUMNS": "200", **environ})


def _joined(shown: str) -> str:
    """What is shown, on one line: long examples continue with a backslash."""
    return " ".join(shown.replace("\\\n", " ").split())


@pytest.fixture
def ran(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, object]]:
    """The commands that would have run."""
    calls: list[dict[str, object]] = []

    def run(source: object, **options: object) -> int:
        calls.append({"source": source, **options})
        return 0

    monkeypatch.setattr("headrace.sdk.run", run)
    return calls


# Options


def test_every_parameter_is_an_option() -> None:
    shown = connector("run", "queue", "--help").output
    for option in ("--queue TEXT", "--hosts TEXT", "--prefetch N", "--mode [fast|safe]", "--durable / --no-durable"):
        assert option in shown
    text = _joined(shown)
    assert "Read a queue." in text
    assert "headrace connector run queue --queue orders --source SOURCE" in text
    assert "How many at once. [default: 1000]" in text
    assert "Where it is. Repeatable. [default: localhost]" in text
    assert "Whom to be. [env var: HEADRACE_QUEUE_PASSWORD; required]" in text
    assert "[default: durable]" in text


def test_options_of_the_gateway_step_aside_for_those_of_the_connector(ran: list[dict[str, object]]) -> None:
    result = connector("run", "queue", *GIVEN, *GATEWAY, "--token", "the queue's", "--gateway-token", "the gateway's")
    assert result.exit_code == 0, result.output
    (call,) = ran
    assert (call["gateway"], call["token"]) == ("127.0.0.1:1", "the gateway's")


def test_options_for_tls_step_aside_together() -> None:
    shown = connector("run", "queue", "--help").output
    options = {word for line in shown.splitlines() for word in line.split()[:1] if "tls" in word}
    gateway = {"--gateway-tls", "--gateway-tls-ca", "--gateway-tls-cert", "--gateway-tls-key"}
    assert options == {"--tls-ca"} | gateway


def test_a_secret_may_come_from_the_environment(ran: list[dict[str, object]]) -> None:
    result = connector("run", "queue", *GIVEN[:4], HEADRACE_QUEUE_PASSWORD=PASSWORD)
    assert result.exit_code == 0, result.output
    assert len(ran) == 1
    result = connector("run", "queue", *GIVEN, HEADRACE_QUEUE_LOGIN="Basic=a b\nOther=c")
    assert result.exit_code == 0, result.output
    queue = ran[-1]["source"]
    assert isinstance(queue, Queue)
    assert {name: value.get_secret_value() for name, value in queue.login.items()} == {"Basic": "a b", "Other": "c"}
    result = connector("run", "queue", *GIVEN[:4])
    assert result.exit_code == 2
    assert "Missing option '--password'" in result.stderr


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (("--prefetch", "0"), "Error: --prefetch: must be greater than or equal to 1\n"),
        (("--prefetch", "x", "--wait-seconds", "0"), "--wait-seconds: must be greater than 0"),
        (("--mode", "fst"), "Invalid value for '--mode': 'fst' is not one of 'fast', 'safe'"),
        (("--mode", "fast"), "Error: mode fast is for queues with durable = false\n"),
        (("--arguments", "x"), "Error: --arguments: write NAME=VALUE\n"),
        (("--queue", "forbidden"), "Error: queue forbidden is not for reading\n"),
        (("--qeue", "x"), "Did you mean '--queue'?"),
    ],
)
def test_mistakes_are_told_by_option(options: tuple[str, ...], told: str) -> None:
    result = connector("run", "queue", *GIVEN, *options)
    assert result.exit_code == 2
    assert told in result.stderr
    assert PASSWORD not in result.output


def test_an_unknown_connector() -> None:
    assert "There is no connector 'fiel'. Did you mean 'file'?" in connector("run", "fiel").stderr
    assert connector("describe", "fiel").stderr == "Error: there is no connector fiel; did you mean file?\n"


def test_options_before_the_name_are_not_lost_silently() -> None:
    result = connector("run", *GATEWAY, "file", "--path", "x", "--source", "s")
    assert result.exit_code == 2
    assert "options come after the connector: headrace connector run file ..." in result.stderr
    assert "name a connector, or give a configuration file with -c" in connector("run", *GATEWAY).stderr


# Configuration files


def test_a_file_in_the_place_of_options(ran: list[dict[str, object]], tmp_path: Path) -> None:
    path = tmp_path / "queue.toml"
    text = f'connector = "queue"\nqueue = "q"\nsource = "s"\npassword = "{PASSWORD}"\ninstance = "blue"\n'
    path.write_text(text + '[gateway]\naddress = "far:1"\ntoken = "from the file"\n')
    assert connector("run", "-c", path, HEADRACE_TOKEN="from the environment").exit_code == 0
    assert connector("run", "-c", path, "--token", "typed", "--instance", "green").exit_code == 0
    assert [(call["gateway"], call["token"], call["instance"]) for call in ran] == [
        ("far:1", "from the file", "blue"),
        ("far:1", "typed", "green"),
    ]
    path.write_text(text)
    assert connector("run", "-c", path, HEADRACE_TOKEN="from the environment").exit_code == 0
    assert (ran[-1]["gateway"], ran[-1]["token"]) == ("127.0.0.1:7433", "from the environment")
    path.write_text(text + '[gateway]\ntls_ca = "nowhere.pem"\n')
    assert connector("run", "-c", path).stderr == f"Error: there is no file {tmp_path / 'nowhere.pem'}\n"


def test_check_tries_the_connection(tmp_path: Path) -> None:
    path = tmp_path / "queue.toml"
    good = f'connector = "queue"\nqueue = "q"\nsource = "s"\npassword = "{PASSWORD}"\n'
    path.write_text(good)
    assert connector("check", "-c", path).output == f"{path} is valid: queue, queue q has 3 messages\n"
    shown = json.loads(connector("check", "-c", path, "--json").output)
    assert (shown["ok"], shown["result"]) == (True, {"connector": "queue", "finding": "queue q has 3 messages"})

    path.write_text(good.replace('"q"', '"away"'))
    result = connector("check", "-c", path)
    assert result.exit_code == 1
    assert result.stderr == f"Error: {path}: nothing listens at localhost; is the queue server running?\n"
    result = connector("check", "-c", path, "--json")
    assert (result.exit_code, json.loads(result.output)["ok"]) == (1, False)

    path.write_text(good.replace("password", "pasword"))
    result = connector("check", "-c", path, "--json")
    assert result.exit_code == 2
    assert "queue.toml:4: pasword: unknown key; did you mean password?" in json.loads(result.output)["error"]
    assert PASSWORD not in result.output


# Describing


def test_describe() -> None:
    shown = connector("describe", "queue").output
    assert "guarantee: at least once: unacknowledged messages are redelivered after a fault" in shown
    assert "needs: pip install 'headrace-connectors[rabbitmq]'" in shown
    rows = {line.split()[0]: " ".join(line.split()[1:]) for line in shown.splitlines() if line}
    assert rows["password"] == "text - yes yes Whom to be."
    assert rows["prefetch"] == "whole number, at least 1, at most 10000 1000 no no How many at once."
    assert rows["hosts"] == "list of texts localhost no no Where it is."
    assert rows["arguments"] == "text by name - no no Arguments."
    document = result_of(connector("describe", "queue", "--json").output)
    assert document["replayable"] is False
    assert [parameter["name"] for parameter in document["parameters"] if parameter["required"]] == ["queue", "source", "password"]
    schema = json.loads(connector("describe", "queue", "--schema").output)
    assert schema["properties"]["connector"]["const"] == "queue"


def test_schema() -> None:
    schema = json.loads(connector("schema").output)
    assert [file["title"] for file in schema["oneOf"]] == [*(known.name for known in CONNECTORS), "queue"]


def test_a_missing_client_library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "absent_client.py").write_text("import not_installed.client\n")
    monkeypatch.syspath_prepend(tmp_path)
    path = tmp_path / "absent.toml"
    path.write_text('connector = "absent"\n')
    absent = replace(CONNECTOR, name="absent", module="absent_client:QUEUE")
    with registered(absent):
        for arguments in (("run", "absent"), ("describe", "absent"), ("schema",), ("check", "-c", path), ("run", "-c", path)):
            result = connector(*arguments)
            assert result.exit_code == 3
            assert "connector absent needs the module not_installed: pip install 'headrace-connectors[rabbitmq]'" in result.stderr
        assert connector("list").exit_code == 0


def test_listing_loads_no_connector() -> None:
    program = (
        "import sys\nfrom headrace.cli import cli\n"
        "cli.main(['connector', 'list'], standalone_mode=False)\n"
        "cli.main(['connector', 'run', '--help'], standalone_mode=False)\n"
        "print([name for name in ('grpc', 'pydantic', 'pika', 'kafka', 'nats', 'psycopg', 'aiohttp') if name in sys.modules])"
    )
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=300, check=True)
    assert result.stdout.splitlines()[-1] == "[]"


# What all bundled connectors declare


@pytest.mark.parametrize("known", CONNECTORS, ids=lambda known: known.name)
def test_a_bundled_connector_is_declared_whole(known: Connector) -> None:
    model = known.load().parameters
    assert issubclass(model, Parameters)
    parameters = {parameter.name: parameter for parameter in declared(model)}
    assert parameters[known.kind].required
    assert not {"connector", "instance", "gateway", "verbose", "help"} & set(parameters)
    for parameter in parameters.values():
        assert parameter.description.endswith("."), parameter.name
    assert (known.replayable is None, known.mode is not None) == (known.kind == "sink", known.kind == "sink")
    shown = connector("run", known.name, "--help")
    assert shown.exit_code == 0
    assert f"headrace connector run {known.name} --" in _joined(shown.output)
    options = [option for parameter in _command(known.name).params for option in (*parameter.opts, *parameter.secondary_opts)]
    assert len(options) == len(set(options))


def _command(name: str) -> click.Command:
    command: click.Command = cli
    for word in ("connector", "run", name):
        assert isinstance(command, click.Group)
        found = command.get_command(click.Context(command), word)
        assert found is not None
        command = found
    return command


def test_every_public_name_is_there() -> None:
    for name in headrace.connectors.__all__:
        assert getattr(headrace.connectors, name) is not None
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        headrace.connectors.nothing  # noqa: B018 - asked for, not used


def test_connectors_are_listed_in_order() -> None:
    assert len({known.name for known in CONNECTORS}) == len(CONNECTORS)
    systems = [known.module.partition(":")[0] for known in CONNECTORS]
    assert systems == sorted(systems)


def test_what_no_command_line_can_give_is_refused() -> None:
    class Wrong(Parameters):
        inner: list[list[str]]

    with pytest.raises(TypeError, match=r"Wrong\.inner is of type list\[list\[str\]\], which a command line cannot express"):
        declared(Wrong)
