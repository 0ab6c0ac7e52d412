"""Runs a fixed set of tests with versions of Spark, and writes into docs/start/install.md what passes: `make spark-versions`.

It tries each version that the engine supports. PySpark is installed into `.build/spark`, except for the version that the
environment has.
"""

import argparse
import os
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import pyspark
from scripts.generated_page import ROOT

from headrace.engine.spark.versions import SUPPORTED

PAGE = ROOT / "docs" / "start" / "install.md"
FOLDER = ROOT / ".build" / "spark"
RELEASES = {"4.2": "4.2.1", "4.3": "4.3.0"}
"""The release of each version that is tried."""
CASES: Mapping[str, Sequence[str]] = {
    "the demo": ("tests/demo/test_demo.py::test_every_figure_is_right",),
    "plain queries": ("tests/engine/test_queries.py", "tests/engine/test_sink_queries.py"),
    "a two-phase sink, everything killed": ("tests/exactly_once/test_points.py::test_everything_dies_at_once",),
    "two drivers of one checkpoint": ("tests/exactly_once/test_two_drivers.py",),
    "keyed states: stored, rescaled, upgraded": ("tests/engine/test_pipeline_checkpoints.py",),
    "real-time mode, everything killed": ("tests/real_time",),
    "lakes, the driver killed": ("tests/engine/test_lakes_on_spark.py",),
    "a history, the driver killed": (
        "tests/engine/test_history_on_spark.py::test_kills_in_the_history_and_at_its_end_leave_each_message_of_files_and_streams_once",
    ),
}
"""What a version must do, with its tests."""
PASSED = "all passed"

_MARKED = re.compile(r"(<!-- spark: versions -->)\n.*?(<!-- end -->)", re.DOTALL)

Outcomes = Mapping[str, bool]
"""Whether each case has passed, by its name."""


def passes(version: str, case: str, arguments: Sequence[str] = ()) -> bool:
    """Runs the tests of a case with a version of Spark, prints what pytest prints, and returns whether they pass.

    Args:
        version: One of the supported versions, such as `4.2`.
        case: One of the cases.
        arguments: Further arguments of pytest.

    Raises:
        subprocess.CalledProcessError: PySpark cannot be installed.
    """
    environ = os.environ | {"PYTHONPATH": installed(version)}
    print(f"Spark {RELEASES[version]}: {case}", flush=True)
    command = [sys.executable, "-m", "pytest", "--quiet", *arguments, *CASES[case]]
    return subprocess.run(command, cwd=ROOT, env=environ).returncode == 0


def installed(version: str) -> str:
    """Installs the release of a version where it is missing, and returns the `PYTHONPATH` that leads to it.

    Raises:
        subprocess.CalledProcessError: It cannot be installed.
    """
    release = RELEASES[version]
    given = os.environ.get("PYTHONPATH", "")
    if release == pyspark.__version__:
        return given
    folder = FOLDER / release
    if not (folder / "pyspark" / "version.py").exists():
        print(f"installing PySpark {release}", flush=True)
        uv = Path(sys.executable).with_name("uv")
        options: list[str | Path] = ["--quiet", "--python", sys.executable, "--no-deps", "--target", folder]
        subprocess.run([uv, "pip", "install", *options, f"pyspark=={release}"], check=True)
    return os.pathsep.join(filter(None, (str(folder), given)))


def filled(page: str, outcomes: Mapping[str, Outcomes]) -> str:
    """Returns the page with the outcomes.

    Args:
        page: The page as it is.
        outcomes: The outcomes of each version; a version that is missing keeps its line.
    """
    known = shown(page) | {RELEASES[version]: _line(found) for version, found in outcomes.items()}
    lines = [f"- Spark {release}: {known.get(release, 'not run')}" for release in map(RELEASES.__getitem__, SUPPORTED)]
    text = "\n".join([f"{'; '.join(CASES)}:".capitalize(), "", *lines])
    return _MARKED.sub(lambda match: f"{match[1]}\n\n{text}\n\n{match[2]}", page)


def shown(page: str) -> dict[str, str]:
    """Returns what the page says of each release."""
    match = _MARKED.search(page)
    assert match is not None, f"{PAGE} has no list of Spark's versions"
    return dict(re.findall(r"^- Spark (\S+): (.+)$", match[0], re.MULTILINE))


def _line(outcomes: Outcomes) -> str:
    failed = [case for case, has_passed in outcomes.items() if not has_passed]
    return f"**failed**: {', '.join(failed)}" if failed else PASSED


def main() -> int:
    """Runs the cases of the named versions, or of all, and writes the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("versions", nargs="*", metavar="VERSION", help=f"{' or '.join(SUPPORTED)}; all without one")
    versions = parser.parse_args().versions or SUPPORTED
    unknown = [version for version in versions if version not in SUPPORTED]
    if unknown:
        parser.error(f"{', '.join(unknown)}: not among {', '.join(SUPPORTED)}")
    outcomes = {version: {case: passes(version, case) for case in CASES} for version in versions}
    PAGE.write_text(filled(PAGE.read_text(), outcomes))
    return int(not all(all(found.values()) for found in outcomes.values()))


if __name__ == "__main__":
    sys.exit(main())
