"""The unit of systemd that runs a deployment: what systemd reads from it is what was meant, for any legal path."""

import re
import shutil
import string
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.absent import absent
from tests.docs.pages import blocks

from headrace.deploy import Unit, UnitError, load_deployment, written_by

_WORD = re.compile(r'"((?:[^"\\]|\\.)*)"|(\S+)')
NAMES = st.text(
    st.one_of(st.sampled_from(" %$\"';#&|<>()[]{}*?~!=:,@+-._äß漢"), st.sampled_from(string.ascii_letters)),
    min_size=1,
    max_size=12,
).filter(lambda name: name.strip(".") != "" and name == name.strip())
PATHS = st.lists(NAMES, min_size=1, max_size=3).map(lambda parts: Path("/srv", *parts))


def unit(**changes: object) -> Unit:
    values: dict[str, object] = {
        "name": "headrace",
        "program": Path("/opt/headrace/bin/headrace"),
        "config": Path("/etc/headrace/deploy.toml"),
        "user": "headrace",
        "group": "headrace",
    }
    return Unit(**values | changes)  # type: ignore[arg-type]


def settings(text: str) -> dict[str, str]:
    return dict(line.split("=", 1) for line in text.splitlines() if "=" in line)


def specified(text: str) -> str:
    """A value as systemd reads it, where `%` begins a specifier."""
    assert re.fullmatch(r"(?:[^%]|%%)*", text), text
    return text.replace("%%", "%")


def words(line: str) -> list[str]:
    """The words of a list of paths, or of a command line but for its variables."""
    found = [re.sub(r"\\(.)", r"\1", quoted) if quoted or not plain else plain for quoted, plain in _WORD.findall(line)]
    return [specified(word) for word in found]


def arguments(line: str) -> list[str]:
    """The arguments of a command line, where `$` begins a variable."""
    found = words(line)
    assert all(re.fullmatch(r"(?:[^$]|\$\$)*", word) for word in found)
    return [word.replace("$$", "$") for word in found]


@given(program=PATHS, config=PATHS, more=st.lists(NAMES, max_size=3), writable=st.lists(PATHS, max_size=3), env_file=PATHS)
def test_any_legal_path_is_read_as_it_was_given(
    program: Path, config: Path, more: list[str], writable: list[Path], env_file: Path
) -> None:
    if set("*?[") & set(str(env_file)):
        with pytest.raises(UnitError, match="pattern"):
            unit(env_file=env_file).text()
        env_file = Path("/srv/variables")
    found = settings(unit(program=program, config=config, arguments=more, writable=writable, env_file=env_file).text())
    run = [str(program), "run", str(config), *more]
    assert arguments(found["ExecStartPre"]) == [*run, "--dry-run"]
    assert arguments(found["ExecStart"]) == ["/usr/bin/nohup", *run]
    assert specified(found["WorkingDirectory"]) == str(config.parent)
    assert specified(found["EnvironmentFile"]) == str(env_file)
    named = [Path(word) for word in words(found.get("ReadWritePaths", ""))]
    assert set(named) <= set(writable)
    assert all(any(path.is_relative_to(one) for one in named) for path in writable)


@pytest.mark.parametrize("character", ["\n", "\r", "\t", "\0", "\x7f", "\\"])
@pytest.mark.parametrize("field", ["program", "config", "env_file"])
def test_a_path_that_a_unit_cannot_name_is_refused(field: str, character: str) -> None:
    with pytest.raises(UnitError, match="rename it"):
        unit(**{field: Path(f"/srv/a{character}b")}).text()


@pytest.mark.parametrize("field", ["program", "config", "env_file", "writable"])
@pytest.mark.parametrize("folder", ["/tmp", "/var/tmp"])
def test_what_a_service_would_not_see_is_refused(field: str, folder: str) -> None:
    path = Path(folder, "x")
    with pytest.raises(UnitError, match=f"{folder}/x: a service has a /tmp of its own"):
        unit(**{field: [path] if field == "writable" else path}).text()


@pytest.mark.parametrize(("path", "protection"), [("/home/jo/deploy.toml", "read-only"), ("/homes/deploy.toml", "true")])
def test_a_home_is_visible_only_where_the_service_needs_it(path: str, protection: str) -> None:
    assert settings(unit(config=Path(path)).text())["ProtectHome"] == protection


def test_folders_of_the_service_are_writable_without_being_named() -> None:
    text = unit(name="orders", writable=[Path("/var/lib/orders/a"), Path("/var/log/orders")]).text()
    assert "ReadWritePaths" not in text
    assert settings(text)["StateDirectory"] == settings(text)["LogsDirectory"] == "orders"
    assert settings(unit(writable=[Path("/var/lib/headraces")]).text())["ReadWritePaths"] == "/var/lib/headraces"


def test_a_deployment_writes_its_logs_and_local_checkpoints(tmp_path: Path) -> None:
    for name in ("a", "b", "c", "d"):
        (tmp_path / f"{name}.py").touch()
    (tmp_path / "deploy.toml").write_text(
        'folder = "logs"\n'
        '[pipeline]\napp = "a.py"\ncheckpoint = "kept/a"\n'
        f'[application.b]\napp = "b.py"\ncheckpoint = "file://{tmp_path}/kept/b"\n'
        '[application.c]\napp = "c.py"\ncheckpoint = "s3a://bucket/c"\n'
        '[application.d]\napp = "d.py"\n'
    )
    found = written_by(load_deployment(tmp_path / "deploy.toml"))
    assert set(found) >= {tmp_path / "logs", tmp_path / "kept/a", tmp_path / "kept/b"}
    assert not any("bucket" in str(path) for path in found)


@given(config=PATHS)
def test_every_setting_stands_on_a_line_of_its_own(config: Path) -> None:
    plain, odd = unit().text(), unit(config=config).text()
    assert [line.partition("=")[0] for line in odd.splitlines()] == [line.partition("=")[0] for line in plain.splitlines()]


@pytest.mark.parametrize("name", ["a b", "100%", "$HOME", 'say "so"', "it's; rm -r", "ärger#1"])
def test_systemd_accepts_it(tmp_path: Path, name: str) -> None:
    if shutil.which("systemd-analyze") is None:
        absent("systemd-analyze is not installed, which Debian has in the package systemd")
    text = unit(program=Path("/bin/sh"), config=Path("/srv", name, "deploy.toml"), writable=[Path("/srv", name)]).text()
    (tmp_path / "headrace.service").write_text(text)
    done = subprocess.run(
        ["systemd-analyze", "verify", tmp_path / "headrace.service"], capture_output=True, text=True, timeout=300, check=False
    )
    assert [line for line in done.stderr.splitlines() if "headrace.service" in line] == []


def test_the_page_shows_the_unit_of_its_deployment() -> None:
    (shown,) = blocks("docs/run/production.md", "ini")
    assert shown.text.strip() == unit(writable=[Path("/var/log/headrace"), Path("/var/lib/headrace/checkpoints")]).text().strip()
