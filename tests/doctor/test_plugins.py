"""`headrace doctor` and plugins: each that cannot be used is named, with its fix."""

from pathlib import Path

import pytest
from tests.connectors.manifests import add
from tests.connectors.test_python_plugins import DECLARATION, IMPLEMENTATION, install
from tests.doctor.examining import check

from headrace.doctor import Finding, Level


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The only folder with manifests."""
    found = tmp_path / "connectors"
    found.mkdir(mode=0o755)
    monkeypatch.setenv("HEADRACE_CONNECTORS", str(found))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "none"))
    return found


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder for distributions."""
    found = tmp_path / "site"
    found.mkdir()
    monkeypatch.syspath_prepend(found)
    return found


def is_unusable(finding: Finding, found: str, fix: str) -> None:
    assert finding.level is Level.WARNING
    assert found in finding.text
    assert fix in finding.fix


def test_no_plugins_are_no_problem() -> None:
    assert check("plugins") == Finding(Level.SKIPPED, "there are none")


def test_plugins_that_can_be_used_are_listed(folder: Path, site: Path) -> None:
    add(folder, run="#!/bin/sh\n", check="#!/bin/sh\n")
    declaration = DECLARATION.format(variable="CONNECTOR", name="good", module="doctor_good_source", extra=None)
    modules = {"doctor_good": declaration, "doctor_good_source": IMPLEMENTATION}
    install(site, "doctor-good", {"good": "doctor_good:CONNECTOR"}, **modules)
    assert check("plugins") == Finding(Level.OK, "good, acme")


def test_a_manifest_that_is_invalid(folder: Path) -> None:
    manifest = add(folder, text="manifest_version = 1\n")
    is_unusable(check("plugins"), f"acme of {manifest}: its manifest is invalid; ", f"acme: correct {manifest}")


def test_a_manifest_that_others_can_change(folder: Path) -> None:
    manifest = add(folder, run="#!/bin/sh\n", check="#!/bin/sh\n")
    manifest.chmod(0o666)
    is_unusable(check("plugins"), "chmod", "acme: correct")


@pytest.mark.parametrize("missing", ["run", "check"])
def test_a_command_that_is_missing(folder: Path, missing: str) -> None:
    there = {"run", "check"} - {missing}
    manifest = add(folder, **dict.fromkeys(there, "#!/bin/sh\n"))
    program = manifest.parent / missing
    is_unusable(check("plugins"), f"there is no program {program}: install it", f"acme: correct {manifest}, or what it names")


def test_a_command_that_is_not_in_the_path(folder: Path) -> None:
    text = add(folder).read_text().replace('["./run"', '["no-such-program"')
    (folder / "acme" / "headrace-connector.toml").write_text(text)
    is_unusable(check("plugins"), "there is no program no-such-program in PATH", "acme: correct")


def test_a_package_that_cannot_be_imported(site: Path) -> None:
    install(site, "doctor-broken", {"broken": "doctor_broken:CONNECTOR"}, doctor_broken="raise RuntimeError('no')\n")
    is_unusable(
        check("plugins"),
        "broken of doctor-broken: doctor_broken:CONNECTOR cannot be imported: RuntimeError: no",
        "broken: pip install --upgrade doctor-broken, or pip uninstall doctor-broken",
    )


def test_a_package_whose_client_library_is_missing(site: Path) -> None:
    declaration = DECLARATION.format(variable="CONNECTOR", name="lacking", module="doctor_lacking_source", extra="client")
    modules = {"doctor_lacking": declaration, "doctor_lacking_source": "import no_such_client\n"}
    install(site, "doctor-lacking", {"lacking": "doctor_lacking:CONNECTOR"}, **modules)
    is_unusable(check("plugins"), "pip install 'doctor-lacking[client]'", "lacking: install its client library")


def test_entry_points_that_cannot_be_read(site: Path) -> None:
    install(site, "doctor-damaged", {"damaged": "x:CONNECTOR"})
    (site / "doctor_damaged-1.2.dist-info" / "entry_points.txt").write_bytes(b"[headrace.connectors]\n\xff = x\n")
    is_unusable(check("plugins"), "the entry points of doctor-damaged cannot be read", "headrace connector list")


def test_every_plugin_has_its_fix(folder: Path) -> None:
    for name in ("one", "two"):
        add(folder, name)
    finding = check("plugins")
    for name in ("one", "two"):
        assert f"{name} of {folder / name}" in finding.text
        assert f"{name}: correct {folder / name}" in finding.fix


def test_a_search_path_that_is_not_absolute(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADRACE_CONNECTORS", "connectors")
    is_unusable(check("plugins"), "write an absolute path", "headrace connector list")
