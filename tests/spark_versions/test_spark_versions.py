"""Headrace runs on each version of Spark that it supports, and refuses any other by name."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pyspark
import pytest
from scripts.spark_versions import CASES, PAGE, PASSED, RELEASES, filled, passes, shown
from tests.selection.turns import in_turns

from headrace.contract.errors import HeadraceError
from headrace.engine.spark.versions import SUPPORTED, require_supported

ROOT = Path(__file__).parents[2]
OTHERS = [version for version in SUPPORTED if not pyspark.__version__.startswith(f"{version}.")]


def test_the_engine_can_be_installed_beside_each_supported_version_and_no_other() -> None:
    requirements = tomllib.loads((ROOT / "engine/pyproject.toml").read_text())["project"]["dependencies"]
    (wanted,) = (text for text in requirements if text.startswith("pyspark"))
    oldest, newest = ([int(part) for part in SUPPORTED[place].split(".")] for place in (0, -1))
    assert wanted == f"pyspark>={oldest[0]}.{oldest[1]},<{newest[0]}.{newest[1] + 1}"
    assert list(RELEASES) == list(SUPPORTED)
    assert all(release.startswith(f"{version}.") for version, release in RELEASES.items())


def test_the_page_shows_that_each_version_has_passed_all_cases() -> None:
    page = PAGE.read_text()
    assert shown(page) == dict.fromkeys(RELEASES.values(), PASSED)
    assert filled(page, {}) == page


def test_an_outcome_of_one_version_leaves_those_of_the_others() -> None:
    first, *_, last = CASES
    changed = shown(filled(PAGE.read_text(), {SUPPORTED[0]: dict.fromkeys(CASES, True) | {first: False, last: False}}))
    assert changed == {RELEASES[SUPPORTED[0]]: f"**failed**: {first}, {last}", RELEASES[SUPPORTED[-1]]: PASSED}


@pytest.mark.parametrize("tests", CASES.values(), ids=CASES)
def test_each_case_names_tests_that_exist(tests: tuple[str, ...]) -> None:
    for test in tests:
        path, _, name = test.partition("::")
        assert (ROOT / path).exists()
        assert not name or f"def {name}(" in (ROOT / path).read_text()


@pytest.mark.parametrize("version", ["4.3.0", "4.3.7", "4.2.1", "4.2.0.dev1", "4.3.0+vendor.4"])
def test_a_release_of_a_supported_version_is_accepted(version: str) -> None:
    require_supported(version)


@pytest.mark.parametrize("version", ["4.1.4", "4.0.5", "3.5.9", "4.20.0", "4.4.0", "5.0.0", "14.2.0", "", "unknown"])
def test_any_other_version_is_refused_with_what_to_do(version: str) -> None:
    with pytest.raises(HeadraceError, match=rf"^Spark {re.escape(version)} is not supported, only 4\.2 and 4\.3: install one"):
        require_supported(version)


def test_an_unsupported_version_is_refused_when_a_program_imports_the_engine() -> None:
    program = "import pyspark; pyspark.__version__ = '4.1.4'; from headrace.engine import register"
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=300)
    assert ended.returncode == 1
    assert "HeadraceError: Spark 4.1.4 is not supported" in ended.stderr.splitlines()[-1]


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("case", in_turns(CASES, of=len(CASES)))
@pytest.mark.parametrize("version", OTHERS)
def test_a_version_that_is_not_installed_here_does_what_the_page_shows(
    version: str, case: str, request: pytest.FixtureRequest
) -> None:
    seed = str(request.config.getoption("kill_seed"))
    assert passes(version, case, ["-p", "no:cacheprovider", "--kill-seed", seed])
