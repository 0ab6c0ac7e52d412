"""The table of files with a version, which a release follows, is complete, and all of them have the same version."""

import re
import subprocess
import tomllib
from fnmatch import fnmatch
from pathlib import Path

import pytest
from scripts import set_version
from tests.distributions.wheels import ROOT
from tests.docs.pages import codes, table

VERSION = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
SHOWN = set_version.shown(VERSION)
FILES = [pattern for row in table("CONTRIBUTING.md", "Files with a version") for pattern in codes(row[0])]
NO_RELEASE = (
    "tests/*",
    "*CHANGELOG.md",
    "*package-lock.json",
    "*.lock",
    "constraints.txt",
    "scripts/site_requirements.txt",
    "conformance/vectors/*",
    # Measured with that version.
    "docs/internals/runs/*",
    # A project that `headrace new` writes has a version of its own.
    "src/headrace/scaffold/templates/*",
)
"""Where the same number may stand without a release changing it."""


@pytest.mark.parametrize("pattern", FILES)
def test_each_file_has_the_version(pattern: str) -> None:
    files = list(ROOT.glob(pattern))
    assert files, "no file has this name"
    assert [str(file) for file in files if not SHOWN.search(file.read_text())] == []


def test_each_bundled_connector_reads_its_version() -> None:
    sources = [file.read_text() for file in (ROOT / "connectors/src").rglob("*.py")]
    versions = [found for source in sources for found in re.findall(r"^    version = (VERSION|\".+\")$", source, re.MULTILINE)]
    assert len(versions) > 10
    assert set(versions) == {"VERSION"}


def copy_of_files(folder: Path) -> Path:
    """A copy of the files with a version, and of the table that lists them."""
    for file in (*set_version.files(ROOT), ROOT / "CONTRIBUTING.md"):
        copy = folder / file.relative_to(ROOT)
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_bytes(file.read_bytes())
    return folder


@pytest.mark.parametrize("version", ["7.13.42", "7.13.42rc1"])
def test_one_command_sets_the_version_everywhere(tmp_path: Path, version: str) -> None:
    root = copy_of_files(tmp_path)
    assert set_version.set_version(root, version) == set_version.files(root)
    assert set_version.present(root) == version
    assert [str(file) for file in set_version.files(root) if SHOWN.search(file.read_text())] == []
    assert set_version.set_version(root, VERSION) == set_version.files(root)
    for file in set_version.files(root):
        assert file.read_bytes() == (ROOT / file.relative_to(root)).read_bytes()


def test_a_version_is_not_found_in_another_one() -> None:
    others = ("7.2.0rc1", "7.2.0a1", "7.2.01", "17.2.0", "7.2.0.1", "1.7.2.0")
    assert [other for other in others if set_version.shown("7.2.0").search(other)] == []
    assert all(set_version.shown("7.2.0").search(text) for text in ("v7.2.0.", "7.2.0", "7.2.0.jar", "headrace==7.2.0,"))


@pytest.mark.parametrize("version", ["", "7.2", "v7.2.0", "7.2.0-rc1", "7.2.0; x"])
def test_a_version_of_another_form_changes_nothing(tmp_path: Path, version: str) -> None:
    root = copy_of_files(tmp_path)
    with pytest.raises(ValueError, match="is no version: write three numbers"):
        set_version.set_version(root, version)
    assert set_version.present(root) == VERSION


@pytest.mark.parametrize("pattern", [pattern for pattern in FILES if pattern.endswith("pyproject.toml")])
def test_requirements_between_distributions_name_the_version(pattern: str) -> None:
    for file in ROOT.glob(pattern):
        named = re.findall(r'"headrace[\w-]*(?:\[\w+\])?==([^"]+)"', file.read_text())
        assert set(named) <= {VERSION}, file


def test_no_file_with_the_version_is_left_out() -> None:
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    names = [name for name in listed.split("\0") if name and not any(fnmatch(name, pattern) for pattern in NO_RELEASE)]
    texts = {name: (ROOT / name).read_bytes().decode(errors="ignore") for name in names if (ROOT / name).is_file()}
    having = [name for name, content in texts.items() if SHOWN.search(content)]
    assert len(having) > 30
    assert [name for name in having if not any(fnmatch(name, pattern) for pattern in FILES)] == []
