"""`headrace install-service` writes a unit that systemd accepts, and changes nothing that somebody else has written."""

import getpass
import grp
import json
import os
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from tests.absent import absent

from headrace.cli.root import cli

USER = getpass.getuser()
GROUP = grp.getgrgid(os.getgid()).gr_name


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A deployment with a connector and an application, in a folder that systemd does not hide from services."""
    # Temporary folders are refused, since services have their own.
    monkeypatch.setattr("headrace.deploy.unit._PRIVATE", ())
    path = tmp_path / "etc/deploy.toml"
    path.parent.mkdir()
    path.with_name("app.py").touch()
    path.write_text(
        'folder = "logs"\n[connectors.out]\nconnector = "stdout-sink"\nsink = "s"\n'
        '[pipeline]\napp = "app.py"\ncheckpoint = "kept/a"\n'
    )
    return path


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(cli, ["install-service", *map(str, arguments)])


def test_the_unit_is_written_and_its_folders_are_created(config: Path, tmp_path: Path) -> None:
    units = tmp_path / "units"
    units.mkdir()
    done = run(config, "--user", USER, "--folder", units, "--writable", tmp_path / "results", "--json")
    assert done.exit_code == 0, done.output
    path = units / "headrace.service"
    assert json.loads(done.output)["result"] == {"unit": str(path), "name": "headrace", "user": USER}
    text = path.read_text()
    assert f"User={USER}\nGroup={GROUP}\n" in text
    assert f"ExecStart=/usr/bin/nohup {Path(sys.executable).with_name('headrace')} run {config}\n" in text
    for folder in (config.parent / "logs", config.parent / "kept/a", tmp_path / "results"):
        assert folder.is_dir()
        assert str(folder) in text.partition("ReadWritePaths=")[2].partition("\n")[0].split()
        assert folder.stat().st_mode & 0o077 == 0


def test_what_follows_two_dashes_is_passed_on(config: Path) -> None:
    done = run(config, "--stdout", "--", "--tls-ca", "a b.pem")
    assert done.exit_code == 0, done.output
    assert f'run {config} --tls-ca "a b.pem"\n' in done.output
    assert f'run {config} --tls-ca "a b.pem" --dry-run\n' in done.output


def test_a_unit_that_is_the_same_is_written_again_and_another_one_is_not(config: Path, tmp_path: Path) -> None:
    arguments = (config, "--user", USER, "--folder", tmp_path)
    assert run(*arguments).exit_code == run(*arguments).exit_code == 0
    unit = tmp_path / "headrace.service"
    written = unit.read_text()
    unit.write_text("mine\n")
    refused = run(*arguments)
    assert refused.exit_code == 1
    assert f"{unit} is there and differs" in refused.output
    assert unit.read_text() == "mine\n"
    assert run(*arguments, "--replace").exit_code == 0
    assert unit.read_text() == written
    assert [path.name for path in tmp_path.iterdir()] == ["etc", "headrace.service"] or not list(tmp_path.glob(".*.new"))


@pytest.mark.parametrize(
    ("arguments", "code", "reason"),
    [
        (("--name", "a/b"), 2, "--name a/b: it may contain"),
        (("--user", "root\nExecStart=x"), 2, "it may contain"),
        (("--user", "nobody-of-that-name"), 3, "there is no user nobody-of-that-name: create it, such as by useradd"),
        (("--user", USER, "--folder", "/proc/nothing"), 1, "/proc/nothing/headrace.service cannot be written"),
    ],
)
def test_what_cannot_be_installed_is_refused_with_what_to_do(
    config: Path, arguments: tuple[str, ...], code: int, reason: str
) -> None:
    refused = run(config, *arguments)
    assert refused.exit_code == code, refused.output
    assert reason in refused.output


def test_a_user_who_may_not_enter_the_folder_of_a_file_is_refused_before_anything_is_written(
    config: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where the environment's Python is in the home of root: systemd itself would say 203/EXEC."""
    if os.geteuid() != 0:
        absent("only root may enter a folder that is closed to all")
    python = tmp_path / "home/python"
    python.parent.mkdir(mode=0o700)
    python.symlink_to(Path(sys.executable).resolve())
    monkeypatch.setattr(Path, "resolve", lambda self: python if str(self) == sys.executable else self)
    monkeypatch.setattr(sys, "argv", ["/usr/bin/headrace"])
    monkeypatch.setattr("shutil.which", lambda name: name)
    for folder in tmp_path.parents[:2]:
        folder.chmod(0o711)
    tmp_path.chmod(0o711)
    refused = run(config, "--user", "nobody", "--folder", tmp_path, "--writable", tmp_path / "new")
    assert (refused.exit_code, f"nobody may not enter {python.parent}, and so would not find {python}" in refused.output) == (
        2,
        True,
    ), refused.output
    assert not (tmp_path / "headrace.service").exists()
    assert not (tmp_path / "new").exists()


def test_the_home_of_the_interpreter_is_visible(config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for python, shown in (("/home/ann/.local/bin/python3.13", "read-only"), ("/usr/bin/python3.13", "true")):
        monkeypatch.setattr(Path, "resolve", lambda self, python=python: Path(python) if str(self) == sys.executable else self)
        monkeypatch.setattr(sys, "argv", ["/opt/headrace/bin/headrace"])
        monkeypatch.setattr("shutil.which", lambda name: name)
        done = run(config, "--stdout")
        assert f"ProtectHome={shown}\n" in done.output, done.output


def test_an_invalid_deployment_is_refused_as_headrace_run_refuses_it(config: Path, tmp_path: Path) -> None:
    config.write_text('[connectors.out]\nconnector = "no-such"\n')
    refused = run(config, "--user", USER, "--folder", tmp_path)
    assert refused.exit_code == 2
    assert "no-such" in refused.output
    assert list(tmp_path.glob("*.service")) == []


def test_a_unit_that_systemd_rejects_is_not_installed(config: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    verifier = tmp_path / "systemd-analyze"
    verifier.write_text('#!/bin/sh\necho "$2:9: Unknown key, ignoring." >&2\n')
    verifier.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    refused = run(config, "--user", USER, "--folder", tmp_path)
    assert refused.exit_code == 1
    assert "systemd rejects the unit: " in refused.output
    assert "Unknown key" in refused.output
    assert list(tmp_path.glob("*.service")) == []


def test_the_unit_names_the_link_by_which_it_was_called(config: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    release = tmp_path / "headrace-1/bin"
    release.mkdir(parents=True)
    (release / "headrace").write_text("#!/bin/sh\n")
    (release / "headrace").chmod(0o755)
    (tmp_path / "current").symlink_to(tmp_path / "headrace-1")
    program = tmp_path / "current/bin/headrace"
    monkeypatch.setattr(sys, "argv", [str(program)])
    assert f"ExecStart=/usr/bin/nohup {program} run {config}\n" in run(config, "--stdout").output
