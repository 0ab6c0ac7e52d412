"""The console's package: linted with the types of the gateway's documents, tested, and built again when its sources change."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from scripts import build_console, generate_console_types
from scripts.build_console import CONSOLE, ROOT

from headrace.gateway.http.openapi import openapi_document


@pytest.mark.in_turn(1)
def test_it_is_formatted_and_linted_with_the_types_of_the_gateways_documents(package: Path) -> None:
    generate_console_types.generate()
    types = generate_console_types.FILE.read_text()
    schemas = openapi_document()["components"]["schemas"]
    assert [name for name in schemas if f" {name}:" not in types] == []
    build_console.run(package, "npm", "run", "lint")


def test_its_own_tests_pass(package: Path) -> None:
    build_console.run(package, "npm", "test")


def test_its_lock_file_names_no_addresses() -> None:
    assert "resolved" not in (CONSOLE / "package-lock.json").read_text()


@pytest.fixture
def checkout(package: Path, tmp_path: Path) -> Path:
    """A checkout with the console's sources, what they depend on, no generated types and no pages."""
    console = tmp_path / "gateway" / "console"
    shutil.copytree(package, console, ignore=shutil.ignore_patterns("node_modules", build_console.TYPES.name))
    (console / "node_modules").symlink_to(package / "node_modules")
    (tmp_path / "gateway" / "src" / "headrace" / "gateway" / "http").mkdir(parents=True)
    (tmp_path / "scripts").mkdir()
    shutil.copy(build_console.__file__, tmp_path / "scripts")
    return tmp_path


def built(checkout: Path, path: str = os.environ["PATH"]) -> "subprocess.CompletedProcess[str]":
    """Builds the pages of a checkout."""
    command = [sys.executable, "scripts/build_console.py"]
    return subprocess.run(command, cwd=checkout, env={**os.environ, "PATH": path}, capture_output=True, text=True, check=False)


def test_pages_are_built_once_and_again_when_sources_change(checkout: Path) -> None:
    pages = checkout / build_console.PAGES.relative_to(ROOT)
    without_npm = built(checkout, path="/nowhere")
    assert (without_npm.returncode, pages.exists()) == (3, False)
    assert "install Node.js 20.19 or newer, and run: make console" in without_npm.stderr

    done = built(checkout)
    assert done.returncode == 0, done.stderr
    assert '<div id="root">' in (pages / "index.html").read_text()
    assert len(list((pages / "assets").glob("*.js"))) >= 1
    assert built(checkout, path="/nowhere").returncode == 0, "they are current, and nothing needs npm"
    # Sources that change, and what a failed build has left, are no reason to lose the pages that there are.
    (checkout / "gateway" / "console" / "src" / "main.tsx").write_text("import nothing from './nothing';")
    failed = built(checkout)
    assert (failed.returncode, "main.tsx" in failed.stderr) == (1, True), failed.stderr
    assert (pages / "index.html").exists()
    assert not build_console.is_current(checkout / "gateway" / "console", pages)


def test_pages_are_the_same_whenever_they_are_built(checkout: Path) -> None:
    assert built(checkout).returncode == 0
    pages = checkout / build_console.PAGES.relative_to(ROOT)
    assert contents(pages) == contents(build_console.PAGES)


def contents(folder: Path) -> dict[str, bytes]:
    """The files of a folder."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
