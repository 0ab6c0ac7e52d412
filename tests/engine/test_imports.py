"""Spark starts a Python process for each step of a query, and each must be there soon."""

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
IMPORTS = "import sys, {module}; print(*(name for name in sys.argv[1:] if name in sys.modules))"


@pytest.mark.parametrize(
    ("module", "unneeded"),
    [
        ("headrace.engine.spark.format", ["grpc", "headrace.protocol", "headrace.pipelines", "headrace.engine.spark.session"]),
        (
            "headrace.engine.source.reader",
            ["headrace.pipelines", "headrace.engine.spark.session", "headrace.engine.sink.writer"],
        ),
        (
            "headrace.engine.sink.writer",
            ["headrace.pipelines", "headrace.engine.spark.session", "headrace.engine.source.reader"],
        ),
    ],
)
def test_a_process_imports_only_what_it_does(module: str, unneeded: list[str]) -> None:
    command = [sys.executable, "-c", IMPORTS.format(module=module), *unneeded]
    assert subprocess.run(command, check=True, capture_output=True, text=True).stdout.split() == []


def test_what_is_not_there_is_said() -> None:
    with pytest.raises(ImportError, match="cannot import name 'nothing'"):
        from headrace.engine import nothing  # noqa: F401


def test_a_worker_without_an_endpoint_for_spans_imports_nothing_of_opentelemetry() -> None:
    program = (
        "import sys\nfrom headrace.engine.applications.stages.tracing import processing\n"
        "with processing('s/0', 'p', 0) as traced:\n    assert traced is None\n"
        "assert not [name for name in sys.modules if name.startswith('opentelemetry')]"
    )
    environ = {name: value for name, value in os.environ.items() if not name.startswith("OTEL_")}
    subprocess.run([sys.executable, "-c", program], check=True, env=environ)


def test_reading_the_messages_of_an_application_imports_no_pandas() -> None:
    # Arrow imports it, if it is installed, for most of what it makes of Python's and NumPy's values.
    assert find_spec("pandas") is not None
    program = """
import sys
from tests.engine.stages import frame, rows_of
from headrace.engine.applications.stages.plan import Plan
from headrace.engine.applications.stages.source_stage import source_stage_rows
from headrace.pipelines import Message, Pipeline

app = Pipeline("counts")
app.source("s/*", decode=bytes.decode).key_by(lambda word: word).stateful(lambda word, seen: word, dict, name="seen").sink("out")
sent = [Message(b"a", stream="s/0", sequence=number) for number in range(3)]
(batch,) = source_stage_rows(Plan(app.graph, (0, 1), "query", "run", 2**20), [frame(sent)])
assert sum(row.messages for row in rows_of(batch)) == 3
assert "pandas" not in sys.modules
"""
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
