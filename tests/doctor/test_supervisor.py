"""`headrace doctor --config deploy.toml` names a supervisor whose calls the gateway would not take."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner
from tests.doctor.examining import check
from tests.gateway.certificates import Authority

from headrace.cli.root import cli
from headrace.doctor import Finding, Level
from headrace.gateway import token_digest
from headrace.terminal import EXIT_ENVIRONMENT, Connection

GATEWAY = "127.0.0.1:7433"
DEPLOYMENT = '[gateway]\nconfig = "gateway.toml"\n[connectors.out]\nconnector = "stdout-sink"\nsink = "s"\n'
RIGHTS = {"good": 'supervise = ["{allowed}"]', "other": "admin = true"}
TLS = '[tls]\ncert = "gateway.pem"\nkey = "gateway.key"\n'


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv("HEADRACE_TOKEN", raising=False)
    (tmp_path / "deploy.toml").write_text(DEPLOYMENT)
    (tmp_path / "gateway.toml").write_text('listen = "127.0.0.1:0"\n')
    return tmp_path / "deploy.toml"


def found(file: Path, supervisor: Connection | None) -> Finding:
    return check("supervisor", connectors=(str(file),), supervisor=supervisor)


def allow(file: Path, allowed: str) -> None:
    tokens = [
        f'[[tokens]]\nname = "{token}"\nsha256 = "{token_digest(token)}"\n{right.format(allowed=allowed)}\n'
        for token, right in RIGHTS.items()
    ]
    file.with_name("gateway.toml").write_text('listen = "127.0.0.1:0"\n' + "".join(tokens))


def test_without_tokens_and_tls_it_needs_nothing(file: Path) -> None:
    assert found(file, Connection(GATEWAY)).level is Level.OK


@pytest.mark.parametrize(
    ("allowed", "token", "said"),
    [
        ("deploy.toml", "good", None),
        ("*", "good", None),
        ("deploy.toml", None, "has no token"),
        ("deploy.toml", "other", "has a token that does not allow supervise for deploy.toml"),
        ("deploy.toml", "unknown", "has a token that does not allow supervise for deploy.toml"),
        ("others.toml", "good", "has a token that does not allow supervise for deploy.toml"),
    ],
)
@pytest.mark.parametrize("in_env_file", [False, True])
def test_its_token_must_allow_it_to_register(
    file: Path, allowed: str, token: str | None, said: str | None, in_env_file: bool
) -> None:
    allow(file, allowed)
    if in_env_file and token is not None:
        file.with_name("secrets.env").write_text(f"HEADRACE_TOKEN={token}\n")
        file.write_text('env_file = "secrets.env"\n' + file.read_text())
    finding = found(file, Connection(GATEWAY, None if in_env_file else token))
    assert (finding.level is Level.OK, said is None or said in finding.text) == (said is None, True), finding
    assert said is None or finding.level is Level.WARNING
    assert "good" not in finding.text + finding.fix


def test_a_gateway_with_tls_needs_its_authority(file: Path) -> None:
    Authority(file.parent, "servers").issue("gateway")
    file.with_name("gateway.toml").write_text('listen = "127.0.0.1:0"\n' + TLS)
    without = found(file, Connection(GATEWAY))
    assert (without.level, "without TLS" in without.text, "--tls-ca" in without.fix) == (Level.WARNING, True, True)
    assert found(file, Connection(GATEWAY, tls_ca=file.with_name("servers.pem"))).level is Level.OK
    of_others = found(file, Connection(GATEWAY, tls=True))
    assert (of_others.level, of_others.exit_code) == (Level.FAILED, EXIT_ENVIRONMENT)
    file.with_name("gateway.toml").write_text('listen = "127.0.0.1:0"\n')
    assert "the gateway has none" in found(file, Connection(GATEWAY, tls=True)).text


def test_options_for_a_gateway_that_is_named_are_not_its_own(file: Path) -> None:
    assert found(file, None).level is Level.SKIPPED


def test_the_command_takes_its_options_and_nothing_of_a_context(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    allow(file, "deploy.toml")
    monkeypatch.setenv("HEADRACE_CONTEXTS", str(tmp_path / "contexts.toml"))
    secret = tmp_path / "operator.token"
    secret.write_text("good\n")
    secret.chmod(0o600)

    def level(*options: str) -> str:
        done = CliRunner().invoke(cli, ["doctor", "--config", str(file), *options, "--json"])
        return {one["check"]: one["level"] for one in json.loads(done.stdout)["result"]["checks"]}["supervisor"]

    assert level() == "warning"
    assert level("--token-file", str(secret)) == "ok"
    added = CliRunner().invoke(cli, ["context", "add", "prod", "--gateway", "127.0.0.1:1", "--token-file", str(secret)])
    assert added.exit_code == 0, added.output
    assert level() == "warning"
    assert level("--token", "good") == "ok"
    assert level("--gateway", "127.0.0.1:1") == "skipped"
