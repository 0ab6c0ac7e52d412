"""`headrace doctor --config deploy.toml`: what a deployment lacks on this machine is named before it is started."""

import os
import resource
import socket
import threading
from collections import namedtuple
from pathlib import Path

import pytest
from tests.doctor.examining import check, findings

from headrace.doctor import Finding, Level, names, resources
from headrace.gateway import token_digest
from headrace.terminal import EXIT_ENVIRONMENT, EXIT_INVALID, Connection

CHECKS = ("ports", "files", "tokens", "secrets", "descriptors", "space", "proxies", "names")
DEPLOYMENT = """
[gateway]
config = "gateway.toml"

[connectors.orders]
connector = "file"
path = "in/*"
source = "orders"
gateway = { token = "${ORDERS}" }

[connectors.totals]
connector = "file-sink"
path = "out"
sink = "totals"
gateway = { token = "${TOTALS}" }

[pipeline]
app = "app.py"
checkpoint = "checkpoints/orders"
gateway = { token = "${PIPELINE}" }
"""
GATEWAY = """
listen = "127.0.0.1:PORT"

[[tokens]]
name = "orders"
token = "${ORDERS}"
sources = ["orders/*"]

[[tokens]]
name = "totals"
token = "${TOTALS}"
sinks = ["totals"]

[[tokens]]
name = "pipeline"
token = "${PIPELINE}"
pipelines = ["*"]
reads = ["orders/*"]
writes = ["totals"]
"""


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in [name for name in os.environ if "proxy" in name.lower()]:
        monkeypatch.delenv(name)
    for name in ("ORDERS", "TOTALS", "PIPELINE"):
        monkeypatch.setenv(name, f"secret of {name}")
    (tmp_path / "deploy.toml").write_text(DEPLOYMENT)
    (tmp_path / "gateway.toml").write_text(GATEWAY.replace("PORT", "0"))
    (tmp_path / "app.py").write_text("")
    return tmp_path / "deploy.toml"


def found(name: str, *files: Path | str) -> Finding:
    return check(name, connectors=tuple(map(str, files)))


def change(file: Path, old: str, new: str) -> None:
    assert old in file.read_text()
    file.write_text(file.read_text().replace(old, new))


@pytest.mark.parametrize("name", CHECKS)
def test_a_deployment_that_can_be_started_has_no_problems(name: str, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # The machine of the tests is not in question.
    monkeypatch.setattr(resources, "ENOUGH_DESCRIPTORS", 1)
    monkeypatch.setattr(resources, "ENOUGH_BYTES", 1)
    monkeypatch.setattr(resources, "ENOUGH_INODES", 0)
    assert found(name, file).level is Level.OK, found(name, file)


@pytest.mark.parametrize("name", CHECKS)
def test_without_a_deployment_there_is_nothing_to_check(name: str, file: Path) -> None:
    (file.parent / "one.toml").write_text('connector = "file"\npath = "x"\nsource = "x"\n')
    for files in ((), (file.parent / "one.toml",), (file.parent / "nowhere.toml",), (f"{file}:orders",)):
        assert found(name, *files).level is Level.SKIPPED


@pytest.mark.parametrize("name", CHECKS)
def test_an_invalid_deployment_is_named_with_its_line(name: str, file: Path) -> None:
    change(file, 'app = "app.py"', 'app = "nowhere.py"')
    finding = found(name, file)
    assert (finding.level, finding.exit_code) == (Level.FAILED, EXIT_INVALID)
    assert f"{file}:" in finding.text
    assert "nowhere.py" in finding.text


def test_the_worst_of_several_deployments_counts(file: Path) -> None:
    other = file.with_name("other.toml")
    other.write_text(file.read_text().replace("${TOTALS}", "${ORDERS}"))
    assert found("tokens", file, other) == found("tokens", other)
    assert found("tokens", other).level is Level.FAILED


def test_a_port_that_another_program_has(file: Path) -> None:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        port = server.getsockname()[1]
        for where in ("listen", "http"):
            with_port = GATEWAY.replace("PORT", str(port) if where == "listen" else "0")
            http = f'\n[http]\nlisten = "127.0.0.1:{port}"\n' if where == "http" else ""
            (file.parent / "gateway.toml").write_text(with_port + http)
            finding = found("ports", file)
            assert (finding.level, finding.exit_code) == (Level.FAILED, EXIT_ENVIRONMENT)
            assert f"the gateway cannot listen on 127.0.0.1:{port}: Address already in use" in finding.text


@pytest.mark.parametrize("name", ["port", "gateway", "health"])
def test_the_default_gateway_is_not_that_of_a_deployment(name: str, file: Path) -> None:
    finding = found(name, file)
    assert (finding.level, "--gateway HOST:PORT" in finding.fix) == (Level.SKIPPED, True)
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        named = Connection(f"127.0.0.1:{server.getsockname()[1]}")
        assert "no gateway was named" not in findings(name, named, connectors=(str(file),), gateway_named=True)[0].text


@pytest.mark.parametrize("what", ["deploy.run", "checkpoints"])
def test_a_folder_that_cannot_be_written_to(what: str, file: Path) -> None:
    (file.parent / what).write_text("a file in place of the folder")
    finding = found("files", file)
    assert (finding.level, finding.exit_code) == (Level.FAILED, EXIT_ENVIRONMENT)
    assert f"{file.parent / what} is not a folder" in finding.text


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('gateway = { token = "${ORDERS}" }', "", "orders has no token"),
        ('token = "${PIPELINE}"', 'token = "${HOME}"', "the gateway does not know the token of pipeline"),
        ("${TOTALS}", "${ORDERS}", "token orders of totals lacks sinks for totals"),
        ('source = "orders"', 'source = "others"', "token orders of orders lacks sources for others"),
        ("${PIPELINE}", "${TOTALS}", "token totals of pipeline lacks pipelines"),
    ],
)
def test_a_token_that_does_not_fit(file: Path, monkeypatch: pytest.MonkeyPatch, old: str, new: str, said: str) -> None:
    monkeypatch.delenv("HEADRACE_TOKEN", raising=False)
    change(file, old, new)
    finding = found("tokens", file)
    assert (finding.level, finding.text) == (Level.FAILED, said)
    assert "secret" not in finding.text + finding.fix


def test_a_gateway_without_tokens_needs_none(file: Path) -> None:
    (file.parent / "gateway.toml").write_text('listen = "127.0.0.1:0"\n')
    assert found("tokens", file).text == "the gateway needs no tokens"


@pytest.mark.parametrize(("hard", "fix"), [(100_000, "ulimit -n"), (256, "raise the hard limit, which is 256")])
def test_few_descriptors(file: Path, monkeypatch: pytest.MonkeyPatch, hard: int, fix: str) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda limit: (256, hard))
    finding = found("descriptors", file)
    assert (finding.level, "256 descriptors" in finding.text, fix in finding.fix) == (Level.WARNING, True, True)


def test_a_disk_without_room_or_inodes(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = namedtuple("usage", "free")
    monkeypatch.setattr("psutil.disk_usage", lambda path: usage(3 << 20))
    finding = found("space", file)
    assert (finding.level, "deploy.run: 3.0 MiB free" in finding.text) == (Level.WARNING, True)
    assert "checkpoints/orders: 3.0 MiB free" in finding.text

    monkeypatch.setattr("psutil.disk_usage", lambda path: usage(1 << 40))
    monkeypatch.setattr(resources, "ENOUGH_INODES", 1 << 62)
    assert "inodes free" in found("space", file).text


def test_a_proxy_between_a_process_and_a_gateway_elsewhere(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://user:password@proxy.example:3128")
    assert found("proxies", file).level is Level.OK, "a gateway on this machine is called directly"
    change(file, '{ token = "${TOTALS}" }', '{ token = "${TOTALS}", address = "far.example:7433" }')
    finding = found("proxies", file)
    assert finding.level is Level.WARNING
    assert "totals reaches far.example:7433 by the proxy http://proxy.example:3128" in finding.text
    assert "password" not in finding.text


def test_a_gateway_whose_name_no_server_of_names_knows_or_answers(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert found("names", file).text == "no gateway is called by a name"
    change(file, '{ token = "${TOTALS}" }', '{ token = "${TOTALS}", address = "far.example:7433" }')
    asked, answers = list[str](), threading.Event()

    def look_up(host: str, *_: object, **__: object) -> list[object]:
        asked.append(host)
        if answers.is_set():
            return []
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(names.socket, "getaddrinfo", look_up)
    finding = found("names", file)
    assert (finding.level, finding.text) == (Level.FAILED, "far.example, which totals calls: Name or service not known")
    monkeypatch.setattr(names, "WITHIN_S", 0.01)
    monkeypatch.setattr(names.socket, "getaddrinfo", lambda *_, **__: answers.wait())
    finding = found("names", file)
    assert finding.level is Level.FAILED
    assert "far.example, which totals calls: no server of names has answered within" in finding.text
    answers.set()
    monkeypatch.setattr(names, "WITHIN_S", 60.0)
    monkeypatch.setattr(names.socket, "getaddrinfo", look_up)
    assert found("names", file).text == "resolved: far.example"
    monkeypatch.setattr(names, "SOON_S", -1.0)
    finding = found("names", file)
    assert (finding.level, "far.example after" in finding.text) == (Level.WARNING, True)
    assert set(asked) == {"far.example"}


def test_files_with_secrets_are_read_and_who_else_can_read_them_is_told(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    token, variables = file.with_name("orders.token"), file.with_name("secrets.env")
    token.write_text("secret of ORDERS\n")
    token.chmod(0o600)
    variables.write_text("TOTALS=secret of TOTALS\n")
    variables.chmod(0o600)
    monkeypatch.delenv("TOTALS")
    change(file, 'token = "${ORDERS}"', 'token_file = "orders.token"')
    file.write_text('env_file = "secrets.env"\n' + file.read_text())
    change(file.with_name("gateway.toml"), 'token = "${ORDERS}"', f'sha256 = "{token_digest("secret of ORDERS")}"')
    assert found("tokens", file).level is Level.OK, found("tokens", file)
    assert found("secrets", file).level is Level.OK
    for exposed in (token, variables):
        exposed.chmod(0o644)
        assert found("secrets", file).level is Level.WARNING
        assert f"every user of this machine can read {exposed}" in found("secrets", file).text
        exposed.chmod(0o600)
    token.write_text("another")
    assert "does not know the token of orders" in found("tokens", file).text
    for path, said in ((token, "there is no such file"), (variables, "there is no such file")):
        kept = path.read_text()
        path.unlink()
        refused = found("secrets", file)
        assert (refused.level, refused.exit_code, said in refused.text, str(path) in refused.text) == (
            Level.FAILED,
            EXIT_INVALID,
            True,
            True,
        )
        path.write_text(kept)
        path.chmod(0o600)
