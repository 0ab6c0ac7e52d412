"""The console's package: linted, tested, and built to exactly the files that the gateway serves."""

from pathlib import Path

from tests.console.conftest import CONSOLE, ROOT, Package

BUILT = ROOT / "gateway" / "src" / "headrace" / "gateway" / "http" / "console"


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_it_is_formatted_and_linted(package: Package) -> None:
    package.checked("npm", "run", "lint")


def test_its_own_tests_pass(package: Package) -> None:
    package.checked("npm", "test")


def test_the_committed_files_are_what_is_built(package: Package, tmp_path: Path) -> None:
    package.checked("npm", "run", "build", CONSOLE_OUT=str(tmp_path))
    assert contents(tmp_path) == contents(BUILT), "run `npm run build` in gateway/console, and commit the result"


def test_its_lock_file_names_no_addresses() -> None:
    assert "resolved" not in (CONSOLE / "package-lock.json").read_text()
