"""The files of each wheel, and its metadata for the package index."""

import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
from collections.abc import Mapping
from pathlib import PurePosixPath

import pytest
from packaging.metadata import Metadata
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from scripts import build_console
from tests.absent import absent
from tests.distributions.wheels import MEMBERS, ROOT, Wheel
from trove_classifiers import classifiers as known_classifiers

NAMES = {member: tomllib.loads((ROOT / member / "pyproject.toml").read_text())["project"]["name"] for member in MEMBERS}
REPOSITORY = "https://github.com/headrace/headrace"
ONE_WAY = {
    "headrace-base": set[str](),
    "headrace-sdk": {"headrace-base"},
    "headrace-gateway": {"headrace-base"},
    "headrace-pipelines": {"headrace-base"},
    "headrace-engine": {"headrace-base", "headrace-pipelines"},
    "headrace-connectors": {"headrace-base", "headrace-sdk"},
    "headrace-conformance": {"headrace-base"},
    "headrace": {"headrace-base", "headrace-connectors", "headrace-engine", "headrace-gateway", "headrace-pipelines"},
    "headrace-laboratory": {
        "headrace",
        "headrace-base",
        "headrace-connectors",
        "headrace-engine",
        "headrace-gateway",
        "headrace-pipelines",
        "headrace-sdk",
    },
}
"""Which distributions each one may need."""

each = pytest.mark.parametrize("name", sorted(NAMES.values()))


def test_every_distribution_is_built(wheels: Mapping[str, Wheel]) -> None:
    assert set(wheels) == set(NAMES.values()) == set(ONE_WAY)


def metadata_of(wheel: Wheel) -> Metadata:
    """The metadata of a wheel, if it is valid."""
    return Metadata.from_email(wheel.text(f"{wheel.info}/METADATA").encode(), validate=True)


@each
def test_the_metadata_is_valid_and_complete(wheels: Mapping[str, Wheel], name: str) -> None:
    metadata = metadata_of(wheels[name])

    assert metadata.license_expression == "Apache-2.0"
    assert metadata.requires_python == SpecifierSet(">=3.11")
    assert metadata.summary
    assert metadata.keywords
    assert metadata.description_content_type == "text/markdown"
    assert set(metadata.classifiers or ()) <= known_classifiers
    assert {"Typing :: Typed", "Programming Language :: Python :: 3.11"} <= set(metadata.classifiers or ())
    # The licence is an expression; the index refuses both.
    assert not any(classifier.startswith("License ::") for classifier in metadata.classifiers or ())
    assert set(metadata.project_urls or {}) == {"Documentation", "Source", "Issues", "Changelog"}


@each
def test_urls_lead_to_what_is_there(wheels: Mapping[str, Wheel], name: str) -> None:
    for url in (metadata_of(wheels[name]).project_urls or {}).values():
        assert url.startswith(REPOSITORY)
        if found := re.fullmatch(f"{REPOSITORY}/(blob|tree)/main/(.+)", url):
            path = ROOT / found[2]
            assert path.is_file() if found[1] == "blob" else path.is_dir(), url


@each
def test_the_licence_is_in_the_wheel(wheels: Mapping[str, Wheel], name: str) -> None:
    wheel = wheels[name]
    assert wheel.metadata.get_all("License-File") == ["LICENSE"]
    assert wheel.text(f"{wheel.info}/licenses/LICENSE") == (ROOT / "LICENSE").read_text()


@each
def test_the_readme_is_whole_and_its_links_lead_somewhere_from_the_package_index(wheels: Mapping[str, Wheel], name: str) -> None:
    readme = metadata_of(wheels[name]).description or ""
    (member,) = (member for member, its_name in NAMES.items() if its_name == name)
    assert readme.strip() == (ROOT / member / "README.md").read_text().strip()
    targets = re.findall(r"\]\(([^)\s]+)\)", readme)
    assert targets, "at least to the project"
    assert not [target for target in targets if not target.startswith(("https://", "#"))]


@each
def test_all_packages_are_typed_and_nobody_owns_the_namespace(wheels: Mapping[str, Wheel], name: str) -> None:
    files = wheels[name].files
    leaves = {PurePosixPath(*PurePosixPath(file).parts[:2]) for file in files if file.startswith("headrace/")}
    assert leaves
    assert all(f"{leaf}/py.typed" in files for leaf in leaves), [leaf for leaf in leaves if f"{leaf}/py.typed" not in files]
    assert "headrace/__init__.py" not in files
    assert {PurePosixPath(file).parts[0] for file in files} == {"headrace", wheels[name].info}
    # Templates of tests, test_*.py.template, are no tests.
    assert not [file for file in files if "__pycache__" in file or PurePosixPath(file).match("test_*.py")]


@pytest.mark.parametrize("member", sorted(NAMES))
def test_every_file_of_the_packages_is_in_the_wheel(wheels: Mapping[str, Wheel], member: str) -> None:
    source = ROOT / member / "src"
    listed = subprocess.run(["git", "ls-files", "-z", "."], cwd=source, capture_output=True, text=True, check=True).stdout
    expected = {path for path in listed.split("\0") if path and (source / path).is_file()}
    assert expected, "at least the marker of types"
    assert expected - set(wheels[NAMES[member]].files) == set()


def test_the_wheel_of_the_gateway_has_the_pages_of_the_console(wheels: Mapping[str, Wheel]) -> None:
    if shutil.which("npm") is None:
        absent("npm not installed; install Node.js 20.19 or newer to build the pages of the console")
    folder = build_console.PAGES.relative_to(ROOT / "gateway" / "src")
    expected = {str(folder / path.relative_to(build_console.PAGES)) for path in build_console.PAGES.rglob("*") if path.is_file()}
    assert str(folder / "index.html") in expected
    assert expected <= set(wheels["headrace-gateway"].files)
    assert not [file for file in wheels["headrace-gateway"].files if file.endswith((".ts", ".tsx"))]


def test_no_file_is_in_two_wheels(wheels: Mapping[str, Wheel]) -> None:
    files = [file for wheel in wheels.values() for file in wheel.files]
    assert len(files) == len(set(files))


def test_distributions_need_one_another_one_way_and_in_one_version(wheels: Mapping[str, Wheel]) -> None:
    versions = {wheel.metadata["Version"] for wheel in wheels.values()}
    assert len(versions) == 1
    for name, wheel in wheels.items():
        requirements = [Requirement(text) for text in wheel.metadata.get_all("Requires-Dist", ())]
        siblings = {found.name: found for found in requirements if found.name in NAMES.values() and found.marker is None}
        # An extra of all extras names its own distribution.
        siblings.pop(name, None)
        assert set(siblings) == ONE_WAY[name]
        assert {str(found.specifier) for found in siblings.values()} <= {f"=={version}" for version in versions}


@each
def test_a_wheel_imports_only_what_it_needs_of_the_others(wheels: Mapping[str, Wheel], name: str) -> None:
    home = {
        PurePosixPath(file).parts[1]: other
        for other, wheel in wheels.items()
        for file in wheel.files
        if file.startswith("headrace/")
    }
    reached, left = {name}, [name]
    while left:
        left += (new := ONE_WAY[left.pop()] - reached)
        reached |= new
    for file in (file for file in wheels[name].files if file.endswith(".py") and file.startswith("headrace/")):
        leaves = set(re.findall(r"^\s*(?:from|import) headrace\.(\w+)", wheels[name].text(file), re.MULTILINE))
        assert {home[leaf] for leaf in leaves} <= reached, file


def test_programs_are_those_that_the_pages_name(wheels: Mapping[str, Wheel]) -> None:
    programs = {}
    for name, wheel in wheels.items():
        if f"{wheel.info}/entry_points.txt" in wheel.files:
            programs[name] = re.findall(r"^(\S+) = (\S+)$", wheel.text(f"{wheel.info}/entry_points.txt"), re.MULTILINE)
    assert programs == {
        "headrace": [("headrace", "headrace.cli:main")],
        "headrace-conformance": [("headrace-conformance", "headrace.conformance:main")],
        "headrace-connectors": [("headrace-connectors", "headrace.connectors_cli:main")],
        "headrace-gateway": [("headrace-gateway", "headrace.gateway_cli:main")],
    }


@each
def test_a_source_archive_has_one_distribution_and_its_licence(wheels: Mapping[str, Wheel], name: str) -> None:
    (path,) = wheels[name].path.parent.glob(f"{name.replace('-', '_')}-[0-9]*.tar.gz")
    with tarfile.open(path) as archive:
        files = [PurePosixPath(file).relative_to(path.name.removesuffix(".tar.gz")) for file in archive.getnames()]
    assert PurePosixPath("LICENSE") in files
    assert {file.parts[0] for file in files} <= {
        "src",
        "java",
        "market_spread",
        "LICENSE",
        "PKG-INFO",
        "README.md",
        "pyproject.toml",
        "hatch_build.py",
        ".gitignore",
    }


def test_twine_has_no_objection(wheels: Mapping[str, Wheel]) -> None:
    folder = next(iter(wheels.values())).path.parent
    paths = [str(path) for path in folder.iterdir() if path.suffix in (".whl", ".gz")]
    assert len(paths) == 2 * len(wheels)
    done = subprocess.run(
        [sys.executable, "-m", "twine", "--no-color", "check", "--strict", *paths],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("PASSED") == len(paths), done.stdout
