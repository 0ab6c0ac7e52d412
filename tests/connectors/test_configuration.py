"""Configuration files of connectors, and the errors for invalid ones."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.connectors.queue_connector import CONNECTOR, PASSWORD, Mode, QueueParameters, registered

from headrace.configuration import ConfigurationError
from headrace.connectors import CONNECTORS
from headrace.connectors.configuration import Configured, connector_schema, load_connector


@pytest.fixture(autouse=True)
def queue() -> Iterator[None]:
    with registered(CONNECTOR):
        yield


def load(folder: Path, text: str, name: str = "", **environ: str) -> Configured:
    path = folder / "c.toml"
    path.write_text(text)
    return load_connector(f"{path}:{name}" if name else str(path), environ)


def problems(folder: Path, text: str, name: str = "", **environ: str) -> list[str]:
    with pytest.raises(ConfigurationError) as caught:
        load(folder, text, name, **environ)
    return [line.removeprefix(f"{folder}/") for line in str(caught.value).splitlines()]


WHOLE = """
connector = "queue"
instance = "blue"
queue = "orders"
source = "orders"
password = "${PASSWORD}"
hosts = "one"
prefetch = "${PREFETCH:-10}"
mode = "fast"
durable = false
tls_ca = "ca.pem"
arguments = { "x-max" = "$${5}" }

[gateway]
address = "far:7433"
token = "${TOKEN:-none}"
tls_ca = "/etc/ca.pem"
"""


def test_everything_that_a_file_can_say(tmp_path: Path) -> None:
    configured = load(tmp_path, WHOLE, PASSWORD=PASSWORD, PREFETCH="")
    parameters = configured.parameters
    assert isinstance(parameters, QueueParameters)
    assert (configured.connector, configured.instance) == (CONNECTOR, "blue")
    assert (parameters.queue, parameters.hosts, parameters.prefetch) == ("orders", ["one"], 10)
    assert (parameters.mode, parameters.durable, parameters.arguments) == (Mode.FAST, False, {"x-max": "${5}"})
    assert parameters.password.get_secret_value() == PASSWORD
    assert parameters.tls_ca == tmp_path / "ca.pem"
    gateway = configured.gateway
    assert (gateway.address, gateway.tls_ca) == ("far:7433", Path("/etc/ca.pem"))
    assert gateway.token is not None
    assert gateway.token.get_secret_value() == "none"


DEPLOYMENT = """
[connectors.first]
connector = "file"
path = "*.txt"
source = "s"

[connectors.second]
connector = "${NOT_SET}"
"""


def test_a_connector_of_a_deployment(tmp_path: Path) -> None:
    configured = load(tmp_path, DEPLOYMENT, "first")
    assert (configured.connector.name, configured.instance) == ("file", "first")
    assert configured.parameters.model_dump()["path"] == (tmp_path / "*.txt",)
    (problem,) = problems(tmp_path, DEPLOYMENT, "frst")
    assert problem == "c.toml:2: connectors: there is no connector frst here; did you mean first?"
    (problem,) = problems(tmp_path, DEPLOYMENT)
    assert problem == f"c.toml: this is a deployment; name one of its connectors: {tmp_path}/c.toml:first"


def test_all_problems_are_told_at_once_with_their_lines(tmp_path: Path) -> None:
    text = f"""
connector = "queue"
queu = "orders"
source = "orders"
password = "{PASSWORD}"
prefetch = 0
mode = "fst"
hosts = [
  "one",
  2,
]
wait_seconds = "${{WAIT}}"

[gateway]
adress = "x"
tls_key = "k.pem"
"""
    assert problems(tmp_path, text) == [
        "c.toml: queue: is required",
        "c.toml:3: queu: unknown key; did you mean queue?",
        "c.toml:6: prefetch: must be greater than or equal to 1",
        "c.toml:7: mode: must be 'fast' or 'safe'; did you mean fast?",
        "c.toml:10: hosts[1]: must be text in quotes",
        "c.toml:12: wait_seconds: the environment variable WAIT is not set; set it, or write ${WAIT:-default}",
        "c.toml:15: gateway.adress: unknown key; did you mean address?",
    ]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('connector = "quue"', "c.toml:1: connector: there is no connector quue; did you mean queue?"),
        ('connector = "xyz"', "c.toml:1: connector: there is no connector xyz; headrace connector list shows all connectors"),
        ("connector = 3", "c.toml:1: connector: must be text in quotes"),
        ("", "c.toml: connector: is required"),
        ("\nconnector = ", "c.toml:2: not valid TOML: Invalid value"),
        ('connector = "stdout-sink"\nsink = "s"\nas_json = true', "c.toml:3: as_json: unknown key; did you mean json?"),
        (
            'connector = "stdout-sink"\nsink = "s"\n[gateway]\ntls_key = "k"',
            "c.toml:3: gateway: tls_cert and tls_key go together: give both, or neither",
        ),
    ],
)
def test_a_problem_says_what_to_do(tmp_path: Path, text: str, told: str) -> None:
    assert problems(tmp_path, text) == [told]


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"nowhere\.toml: cannot be read: No such file"):
        load_connector(str(tmp_path / "nowhere.toml"))
    (tmp_path / "c.toml").write_bytes(b"\xff")
    with pytest.raises(ConfigurationError, match=r"c\.toml: is not UTF-8 text"):
        load_connector(str(tmp_path / "c.toml"))


def test_no_secret_is_in_an_error(tmp_path: Path) -> None:
    of_the_model = f'connector = "queue"\nqueue = "q"\nsource = "s"\npassword = "{PASSWORD}"\nmode = "fast"\n'
    of_a_list = f'connector = "queue"\nqueue = "q"\nsource = "s"\npassword = ["{PASSWORD}"]\n'
    assert problems(tmp_path, of_the_model) == ["c.toml: mode fast is for queues with durable = false"]
    assert problems(tmp_path, of_a_list) == ["c.toml:4: password: must be text in quotes"]
    configured = load(tmp_path, WHOLE, PASSWORD=PASSWORD)
    assert PASSWORD not in f"{configured!r} {configured.parameters} {configured.parameters.model_dump_json()}"


def test_the_schema_of_a_connector() -> None:
    schema = connector_schema([CONNECTOR])
    properties = schema["properties"]
    assert (schema["required"], schema["additionalProperties"]) == (["connector", "queue", "source", "password"], False)
    assert properties["connector"] == {"const": "queue", "description": "a queue"}
    assert properties["hosts"]["anyOf"] == [{"items": {"type": "string"}, "type": "array"}, {"type": "string"}]
    assert properties["prefetch"]["anyOf"][-1] == {"type": "string", "pattern": r"\$\{.+\}"}
    assert properties["order"] == {"description": "Which first.", "enum": ["old", "new"], "type": "string"}
    assert schema["$defs"]["Mode"]["enum"] == ["fast", "safe"]
    assert schema["$defs"]["GatewayTable"]["properties"]["token"]["writeOnly"]
    assert "null" not in json.dumps(schema)


FILE_SINK = 'connector = "file-sink"\npath = "out"\nsink = "s"\nrotate_bytes = {size}\n'


@pytest.mark.parametrize(
    ("size", "wanted"), [('"64mb"', 67_108_864), ('"2 KiB"', 2048), ("1000", 1000), ('"${SIZE:-1kb}"', 1024)]
)
def test_a_size_is_a_number_of_bytes_or_has_a_unit(tmp_path: Path, size: str, wanted: int) -> None:
    assert load(tmp_path, FILE_SINK.format(size=size)).parameters.model_dump()["rotate_bytes"] == wanted


@pytest.mark.parametrize(
    ("size", "told"),
    [
        ('"64 cows"', "'64 cows' is not a size; write for instance 64mb; units are b, kb, mb, gb and tb, in powers of 1024"),
        ('"0mb"', "must be greater than or equal to 1"),
    ],
)
def test_an_invalid_size_is_told_with_line_and_key(tmp_path: Path, size: str, told: str) -> None:
    assert problems(tmp_path, FILE_SINK.format(size=size)) == [f"c.toml:4: rotate_bytes: {told}"]


def test_editors_complete_sizes_with_units() -> None:
    (file_sink,) = (known for known in CONNECTORS if known.name == "file-sink")
    number, size, variable = connector_schema([file_sink])["properties"]["rotate_bytes"]["anyOf"]
    assert number == {"type": "integer", "minimum": 1}
    assert all(re.search(size["pattern"], text) for text in ("64mb", "1.5 GiB", "7", "10b", "2k"))
    assert not any(re.search(size["pattern"], text) for text in ("64 cows", "mb", "-1"))
    assert variable["pattern"] == r"\$\{.+\}"


def test_one_schema_for_all_connectors() -> None:
    schema = connector_schema(CONNECTORS)
    names = [file["properties"]["connector"]["const"] for file in schema["oneOf"]]
    assert names == [known.name for known in CONNECTORS]
    references = {word for word in json.dumps(schema).split('"') if word.startswith("#/$defs/")}
    assert {reference.removeprefix("#/$defs/") for reference in references} <= set(schema["$defs"])
