import tomllib
from pathlib import Path

from click.testing import CliRunner, Result

from headrace.cli import cli
from headrace.gateway import load_config


def gateway(*arguments: str | Path) -> Result:
    return CliRunner().invoke(cli, ["gateway", *map(str, arguments)])


def test_check_only_validates(tmp_path: Path) -> None:
    good, bad = tmp_path / "good.toml", tmp_path / "bad.toml"
    good.write_text("[limits]\nmax_sessions = 3\n")
    bad.write_text("[limits]\nmax_session = 3\n")

    assert (gateway("--config", good, "--check").exit_code, gateway("--config", bad, "--check").exit_code) == (0, 2)
    assert gateway("--config", bad, "--check").stderr == (
        f"{bad}:2: limits.max_session: unknown key; did you mean max_sessions?\n"
    )


def test_flags_win_over_the_file_in_the_printed_configuration(tmp_path: Path) -> None:
    path = tmp_path / "gateway.toml"
    path.write_text('listen = "127.0.0.1:1"\n[limits]\nbuffer_bytes = "1GiB"\nmax_sessions = 3\n')

    result = gateway(
        "--config", path, "--buffer-bytes", "64MiB", "--listen", "127.0.0.1:2", "--log-level", "debug", "--print-config"
    )

    printed = tomllib.loads(result.stdout)
    assert printed["listen"] == "127.0.0.1:2"
    assert printed["limits"]["buffer_bytes"] == 64 * 2**20
    assert printed["limits"]["max_sessions"] == 3
    assert printed["log"]["level"] == "debug"


def test_a_fresh_token_fits_into_the_configuration(tmp_path: Path) -> None:
    made = gateway("token", "orders")
    path = tmp_path / "gateway.toml"
    path.write_text(made.stdout)

    (token,) = load_config(path).tokens

    assert token.name == "orders"
    secret = made.stderr.strip().removeprefix("HEADRACE_TOKEN=")
    assert len(secret) > 40
    assert secret not in made.stdout
    assert gateway("token", "orders").stderr != made.stderr


def test_a_token_name_that_would_break_the_configuration_is_refused() -> None:
    result = gateway("token", 'a"\nadmin = true')

    assert result.exit_code == 2
    assert result.stdout == ""
