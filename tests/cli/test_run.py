"""`headrace run` and `headrace state`, as far as they come without Spark: what they load, print and refuse."""

import errno
import importlib
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
from click.testing import CliRunner, Result
from tests.cli.json_shape import result_of

import headrace.engine
from headrace.cli import cli
from headrace.machine.traces import first_cause
from headrace.terminal import Connection

VOTES = """
from headrace.pipelines import Pipeline

def count(letter, state):
    state["n"] = state.get("n", 0) + 1

app = Pipeline("votes")
letters = app.source("votes/*", decode=bytes.decode)
letters.key_by(str.lower).stateful(count, dict, name="counts").sink("totals")
"""
STATELESS = """
from headrace.pipelines import Pipeline

app = Pipeline("celsius")
app.source("f/*").map(lambda message: message.value).sink("c")
"""

Write = Callable[[str], str]


@pytest.fixture
def program(tmp_path: Path) -> Iterator[Write]:
    """Writes a program; leaves nothing of it imported, and signals as they were."""
    path, handlers = list(sys.path), {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}

    def write(text: str) -> str:
        file = tmp_path / "application_of_a_test.py"
        file.write_text(text)
        return str(file)

    yield write
    sys.path[:] = path
    sys.modules.pop("application_of_a_test", None)
    for number, handler in handlers.items():
        signal.signal(number, handler)


def run(*words: str, env: dict[str, str] | None = None) -> Result:
    sys.modules.pop("application_of_a_test", None)
    return CliRunner(env=env).invoke(cli, words)


class Running:
    """A query that is looked at ten times before it ends."""

    id = "q"
    lastProgress = SimpleNamespace(batchId=7, durationMs={})

    def __init__(self) -> None:
        self.looks = 0

    @property
    def isActive(self) -> bool:
        self.looks += 1
        return self.looks <= 10


@pytest.mark.parametrize(
    ("broken", "what"),
    [("Archives.look", "archive Spark's classes"), ("Figures.ask", "show the progress"), ("Output.show", "show the progress")],
)
def test_what_is_shown_of_a_query_and_cannot_be_ends_no_query(
    broken: str, what: str, program: Write, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Such as the output, on a full disk, or a token's file that was removed; the log names it once."""
    module = importlib.import_module("headrace.cli.run")
    shown: list[str] = []
    monkeypatch.setattr(module, "_LOOKS_EVERY_S", 0.0)
    monkeypatch.setattr(module, "_SHOWS_EVERY_S", 0.0)
    monkeypatch.setattr(module.Archives, "look", lambda self, query: shown.append("archives"))
    monkeypatch.setattr(module.Figures, "ask", lambda self, now: (1, 2))
    monkeypatch.setattr(module.Output, "show", lambda self, *_: shown.append("output"))

    def fails(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    owner, _, method = broken.partition(".")
    monkeypatch.setattr(getattr(module, owner), method, fails)
    query, output = Running(), module.Output("votes", logs_json=False, prints_json=False)
    connection = Connection("127.0.0.1:1")
    module.watch(query, module.load(program(VOTES)), connection, threading.Event(), output, module.Archives("local"))
    assert query.looks == 11
    assert [record.getMessage() for record in caplog.records] == [
        f"cannot {what}: OSError: [Errno 28] No space left on device; the query continues"
    ]
    others = {"archives", "output"} - ({"archives"} if owner == "Archives" else {"output"})
    assert set(shown) == others


def test_a_dry_run_prints_the_graph_and_runs_nothing(program: Write) -> None:
    # Without a Java: nothing of Spark is looked for.
    result = run("run", program(VOTES), "--dry-run", env={"JAVA_HOME": "/nowhere", "PATH": ""})
    assert result.exit_code == 0, result.output
    lines = [line.split() for line in result.stdout.splitlines()]
    assert lines == [
        ["votes/*", "source", "votes/*"],
        ["lower", "key_by", "after", "votes/*"],
        ["counts", "stateful", "after", "lower"],
        ["to-totals", "sink", "totals", "after", "counts"],
    ]


@pytest.mark.parametrize(
    ("before", "after", "says"),
    [
        ('Pipeline("votes")', 'Pipeline("the votes")', "a pipeline: name must have 1 to 255 ASCII letters"),
        ('.sink("totals")', '.sink("totals/0")', "sink must have 1 to 255 ASCII letters"),
        ('Pipeline("votes")', 'Pipeline("votes", on_error="skip")', "on_error must be OnError.FAIL"),
    ],
)
def test_a_dry_run_refuses_arguments_that_are_wrong(program: Write, before: str, after: str, says: str) -> None:
    assert before in VOTES
    result = run("run", program(VOTES.replace(before, after)), "--dry-run")
    assert result.exit_code == 2
    assert says in result.output


def test_a_dry_run_tells_programs_the_same(program: Write) -> None:
    result = run("run", program(VOTES), "--dry-run", "--json")
    assert result.exit_code == 0, result.output
    document = result_of(result.stdout)
    assert (document["pipeline"], document["streams"], document["sinks"]) == ("votes", ["votes/*"], ["totals"])
    assert len(document["steps"]) == 4


def test_one_of_several_pipelines_is_named(program: Write) -> None:
    two = program(f"{VOTES}\nother = Pipeline('other')\nother.source('o/*').sink('out', encode=repr)\n")
    result = run("run", two, "--dry-run")
    assert result.exit_code == 2
    assert f"has several pipelines (app, other); name one: {two}:app" in result.stderr
    assert "source o/*" in run("run", f"{two}:other", "--dry-run").stdout
    result = run("run", f"{two}:third", "--dry-run")
    assert result.exit_code == 2
    assert "has no pipeline named third" in result.stderr


@pytest.mark.parametrize("command", [["run"], ["state", "show"], ["state", "export"]])
@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("x = 1\n", "has no pipeline; it needs a line such as app = Pipeline('orders')"),
        ("import nothing_of_this_name\n", "cannot be imported: ModuleNotFoundError: No module named 'nothing_of_this_name'"),
        ("from headrace.pipelines import Pipeline\n\n1 / 0\n", "application_of_a_test.py, line 3)"),
        ("x = = 1\n", "cannot be imported: SyntaxError: invalid syntax"),
        (
            "from headrace.pipelines import Pipeline\napp = Pipeline('p')\napp.source('a/*')\n",
            "step a/* has no consumer; end the flow with .sink('name')",
        ),
    ],
)
def test_a_program_that_has_no_pipeline_is_refused(program: Write, command: list[str], text: str, says: str) -> None:
    result = run(*command, program(text))
    assert result.exit_code == 2, result.output
    assert says in result.stderr
    assert "Traceback" not in result.output


RAN = "import pathlib\npathlib.Path(__file__).with_suffix('.ran').touch()\n"
SPARK = "from pyspark.sql import SparkSession\n"
ENGINE = "from headrace.engine import build_session, start\n"


@pytest.mark.parametrize("command", [["run", "--dry-run"], ["run"], ["state", "show"]])
@pytest.mark.parametrize(
    ("text", "says"),
    [
        (
            SPARK + "spark = SparkSession.builder.getOrCreate()\nspark.range(1).show()\n",
            "has no pipeline; it needs a line such as",
        ),
        (
            "from headrace.sdk import serve\nserve(None)\n",
            "It was not run. Run a program without a pipeline with Python: python ",
        ),
        (VOTES + SPARK + "spark = SparkSession.builder.getOrCreate()\n", "getOrCreate(...) would run when the file"),
        (VOTES + "frame.writeStream.format('noop').start()\n", "start(...) would run when the file is imported"),
        (
            VOTES + ENGINE + "start(app, None, 'c').awaitTermination()\n",
            "awaitTermination(...) would run when the file is imported",
        ),
        (VOTES + ENGINE + "start(app, None, 'c')\n", 'Move the code that runs the program under if __name__ == "__main__":'),
        (
            VOTES + ENGINE + "def session():\n    return build_session('votes')\n\ndef main():\n    session()\n\nmain()\n",
            "line 14: build_session(...) would run when the file is imported",
        ),
        (VOTES + ENGINE + "if True:\n    with build_session('votes') as spark:\n        pass\n", "build_session(...) would run"),
    ],
)
def test_a_program_that_would_run_when_it_is_imported_is_not_imported(
    program: Write, command: list[str], text: str, says: str
) -> None:
    file = program(RAN + text)
    result = run(*command, file)
    assert result.exit_code == 2, result.output
    assert says in result.stderr
    assert not Path(file).with_suffix(".ran").exists()


@pytest.mark.parametrize(
    "text",
    [
        VOTES + ENGINE + "if __name__ == '__main__':\n    start(app, build_session('votes'), 'c').awaitTermination()\n",
        VOTES + ENGINE + "def main():\n    start(app, build_session('votes'), 'c')\n\nif __name__ == '__main__':\n    main()\n",
        VOTES + "import threading\nthread = threading.Thread(target=print)\nthread.start()\n",
        "import headrace.pipelines as pipelines\n"
        + VOTES.replace("from headrace.pipelines import Pipeline", "").replace("Pipeline(", "pipelines.Pipeline("),
    ],
)
def test_a_program_may_also_run_by_itself(program: Write, text: str) -> None:
    result = run("run", program(text), "--dry-run")
    assert result.exit_code == 0, result.output
    assert "votes/*" in result.stdout


def test_a_pipeline_may_come_from_another_module(program: Write, tmp_path: Path) -> None:
    (tmp_path / "made_for_a_test.py").write_text(VOTES)
    try:
        assert run("run", program("from made_for_a_test import app\n"), "--dry-run").exit_code == 0
    finally:
        sys.modules.pop("made_for_a_test", None)


@pytest.mark.parametrize("command", [["run"], ["run", "--dry-run"], ["state", "show"], ["state", "query"]])
def test_a_file_that_is_not_there_is_refused(tmp_path: Path, command: list[str]) -> None:
    of_a_step = ["a-step", "a-key"] if "query" in command else []
    result = run(*command, str(tmp_path / "absent.py"), *of_a_step)
    assert result.exit_code == 2, result.output
    assert f"{tmp_path}/absent.py is not a Python file; name one that defines a pipeline" in result.stderr


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--option", "maxMessagesPerTrigger"], "--option maxMessagesPerTrigger: want NAME=VALUE"),
        (["--conf", "=4g"], "--conf =4g: want NAME=VALUE"),
        (["--tls"], "--tls alone is not enough for Spark's workers: give --tls-ca"),
        (["--parallelism", "0"], "0 is not in the range x>=1"),
    ],
)
def test_options_that_make_no_sense_are_refused_before_spark_starts(program: Write, options: list[str], says: str) -> None:
    result = run("run", program(VOTES), *options)
    assert result.exit_code == 2, result.output
    assert says in result.stderr


@pytest.mark.parametrize("command", [["show"], ["export"], ["rescale", "--into", "new", "--parallelism", "4"]])
def test_a_setting_of_spark_without_a_value_is_refused_before_states_are_read(program: Write, command: list[str]) -> None:
    result = run("state", *command[:1], program(VOTES), *command[1:], "--conf", "spark.executor.memory")
    assert result.exit_code == 2, result.output
    assert "--conf spark.executor.memory: want NAME=VALUE" in result.stderr


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--trigger-interval", "soon"), "Invalid value for '--trigger-interval': 'soon' is not a duration; write"),
        (
            ("--trigger-interval", "5 cows"),
            "Invalid value for '--trigger-interval': '5 cows' is not a duration; write for instance",
        ),
        (("--worker-memory", "much"), "Invalid value for '--worker-memory': 'much' is not a size; write for instance 64mb"),
        (("--real-time", "--available-now"), "--available-now and --real-time cannot be combined"),
        (("--real-time-workers", "2"), "--real-time-workers is for real-time mode: add --real-time"),
        (("--real-time", "--real-time-workers", "0"), "Invalid value for '--real-time-workers': 0 is not in the range x>=1"),
        (("--trigger-interval", "5 s", "--available-now"), "--available-now and --trigger-interval cannot be combined"),
    ],
)
def test_an_invalid_duration_or_size_is_refused_without_java(program: Write, words: tuple[str, ...], says: str) -> None:
    result = run("run", program(VOTES), *words, env={"JAVA_HOME": "/nowhere", "PATH": ""})
    assert result.exit_code == 2, result.output
    assert says in " ".join(result.stderr.split())


@pytest.mark.parametrize("words", [["run"], ["state", "rescale", "--into", "new", "--parallelism", "2"]], ids=["run", "rescale"])
def test_a_machine_without_java_is_told_what_it_lacks(program: Write, words: list[str]) -> None:
    result = run(*words, program(VOTES), env={"JAVA_HOME": "", "PATH": "/nowhere"})
    assert result.exit_code == 3, result.output
    assert "Java" in result.stderr


def test_an_application_without_states_has_none_to_show(program: Write) -> None:
    result = run("state", "show", program(STATELESS))
    assert result.exit_code == 2
    assert "pipeline celsius keeps no states" in result.stderr


@pytest.mark.parametrize("command", ["show", "query", "export", "rescale"])
def test_each_command_of_states_has_help_with_an_example(command: str) -> None:
    result = run("state", command, "--help")
    assert result.exit_code == 0
    assert f"headrace state {command} app.py" in result.stdout


ERRORS = [error for error in vars(headrace.engine).values() if isinstance(error, type) and issubclass(error, Exception)]


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: error.__name__)
def test_the_first_cause_of_a_trace_is_the_error_that_headrace_raised(error: type[Exception]) -> None:
    trace = (
        "[STREAM_FAILED] Query [id = 1] terminated with exception: Job aborted. SQLSTATE: XXKST\n"
        "Traceback (most recent call last):\n"
        '  File "reader.py", line 3, in read\n'
        f"headrace.engine._errors.{error.__name__}: stream orders/0: what happened\n\n"
        "SQLSTATE: 38000\n"
    )
    assert first_cause(trace) == f"headrace.engine._errors.{error.__name__}: stream orders/0: what happened"
    assert first_cause("terminated\nby nobody") == "terminated"
