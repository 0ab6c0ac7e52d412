"""The table of files with a version, which a release follows, is complete, and all of them have the same version."""

import re
import subprocess
import tomllib
from fnmatch import fnmatch

import pytest
from tests.distributions.wheels import ROOT
from tests.docs.pages import codes, table

VERSION = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
SHOWN = re.compile(rf"(?<![\d.]){re.escape(VERSION)}(?![\d.]*\d)")
FILES = [pattern for row in table("CONTRIBUTING.md", "Files with a version") for pattern in codes(row[0])]
CONNECTORS = "connectors/src/"
NO_RELEASE = (
    "tests/*",
    "*CHANGELOG.md",
    "*package-lock.json",
    "*.lock",
    "constraints.txt",
    "scripts/site_requirements.txt",
    "conformance/vectors/*",
    # A project that `headrace new` writes has a version of its own.
    "src/headrace/scaffold/templates/*",
)
"""Where the same number may stand without a release changing it."""


@pytest.mark.parametrize("pattern", [pattern for pattern in FILES if not pattern.startswith(CONNECTORS)])
def test_each_file_has_the_version(pattern: str) -> None:
    files = list(ROOT.glob(pattern))
    assert files, "no file has this name"
    assert [str(file) for file in files if not SHOWN.search(file.read_text())] == []


def test_each_bundled_connector_has_the_version() -> None:
    files = [file for pattern in FILES if pattern.startswith(CONNECTORS) for file in ROOT.glob(pattern)]
    versions = [found for file in files for found in re.findall(r'^    version = "(.+)"$', file.read_text(), re.MULTILINE)]
    assert len(versions) > 10
    assert set(versions) == {VERSION}


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
    assert len(having) > 40
    assert [name for name in having if not any(fnmatch(name, pattern) for pattern in FILES)] == []
