"""Several applications and Spark programs in one deployment: their configuration, their processes, and their end."""

import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner
from tests.deploy.supervisors import SLEEPS, Probe, Watched, begun, notes, plan, stop

from headrace.cli import cli
from headrace.configuration import ConfigurationError
from headrace.deploy import CannotRun, Deployment, Kind, Known, Role, load_deployment, read_graphs
from headrace.deploy import plan as plan_of

APPLICATION = """
from headrace.pipelines import Pipeline

app = Pipeline("{name}")
app.source("orders/*").sink("{name}")
"""
QUERY = "raise SystemExit('a dry run has run it')"
WHOLE = """
[application.first]
app = "first.py"
conf = { "spark.executor.memory" = "1g" }

[application.second]
app = "second.py"
master = "local[1]"

[query.clean]
program = "clean.py"
args = ["--from", "a b"]
pipelines = ["clean-1", "clean-2"]
reads = ["orders/*"]
master = "local[3]"
conf = { "spark.driver.memory" = "1g", "spark.sql.shuffle.partitions" = 3, "spark.app.label" = "it's a \\"label\\"" }
gateway = { token = "of-clean" }
"""


def load(folder: Path, text: str = WHOLE) -> Deployment:
    for name in ("first", "second"):
        (folder / f"{name}.py").write_text(APPLICATION.format(name=name))
    (folder / "clean.py").write_text(QUERY)
    (folder / "deploy.toml").write_text(text)
    return load_deployment(folder / "deploy.toml", {})


def role(deployment: Deployment, name: str) -> Role:
    (found,) = (one for one in plan_of(deployment, read_graphs(deployment)).others if one.name == name)
    return found


def test_each_is_a_process_with_its_own_settings_and_no_program_is_run_before_its_start(tmp_path: Path) -> None:
    deployment = load(tmp_path)
    planned = plan_of(deployment, read_graphs(deployment))
    assert [(one.name, one.kind, one.pipelines, one.reads) for one in planned.others] == [
        ("first", Kind.PIPELINE, ("first",), ("orders/*",)),
        ("second", Kind.PIPELINE, ("second",), ("orders/*",)),
        ("clean", Kind.QUERY, ("clean-1", "clean-2"), ("orders/*",)),
    ]
    first, second, clean = (one.command("127.0.0.1:1") for one in planned.others)
    assert "spark.executor.memory=1g" in first
    assert "--master" not in first
    assert second[second.index("--master") + 1] == "local[1]"
    assert clean[2:] == ["headrace.cli.spark_program", "--gateway", "127.0.0.1:1", "clean.py", "--from", "a b"]
    result = CliRunner().invoke(cli, ["run", str(tmp_path / "deploy.toml"), "--dry-run"])
    assert result.exit_code == 0, result.output
    assert "clean.py" in result.output


def test_a_reload_restarts_what_has_another_program(tmp_path: Path) -> None:
    deployment = load(tmp_path)
    graphs = read_graphs(deployment)

    def settings() -> dict[str, object]:
        return {one.name: one.settings for one in plan_of(deployment, graphs).others}

    before = settings()
    assert settings() == before
    for file, name in (("first.py", "first"), ("clean.py", "clean")):
        (tmp_path / file).write_text((tmp_path / file).read_text() + "\n")
        after = settings()
        assert [one for one in before if after[one] != before[one]] == [name]
        before = after
    (tmp_path / "clean.py").unlink()
    assert settings()["clean"] != before["clean"]


def test_a_spark_program_is_known_by_its_pipelines(tmp_path: Path) -> None:
    clean = role(load(tmp_path), "clean")
    assert clean.is_connected(Known(pipelines=frozenset({"clean-1", "clean-2", "another"})))
    assert clean.is_connected(Known(pipelines=frozenset({"clean-1"}))) is False
    unnamed = role(load(tmp_path, '[query.clean]\nprogram = "clean.py"\n'), "clean")
    assert unnamed.is_connected(Known()) is None


def test_a_pipeline_that_has_not_called_since_its_process_was_started_is_of_the_process_before(tmp_path: Path) -> None:
    clean = role(load(tmp_path), "clean")
    known = Known(pipelines=frozenset({"clean-1", "clean-2"}), silent_s={"clean-1": 0.5, "clean-2": 3.0})
    assert clean.is_connected(known.within(3.0))
    assert clean.is_connected(known.within(2.9)) is False
    assert known.within(2.9).pipelines == {"clean-1"}


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ('[application.gateway]\napp = "first.py"\n', "the name gateway is reserved; rename the application"),
        ('[query.pipeline]\nprogram = "clean.py"\n', "the name pipeline is reserved; rename the query"),
        ('[query."a/b"]\nprogram = "clean.py"\n', "may contain letters, digits and"),
        ('[application.a]\napp = "first.py"\n[query.a]\nprogram = "clean.py"\n', "the application a has the same name"),
        ('[query.a]\nprogram = "other.py"\n', "there is no file"),
        ('[query.a]\nprogram = "clean.py"\npipelines = ["a/b"]\n', "is no name of a pipeline"),
        ('[query.a]\nprogram = "clean.py"\nreads = ["orders"]\n', "is no pattern of streams"),
        ("", "nothing to run"),
    ],
)
def test_what_is_wrong_is_named_before_anything_starts(tmp_path: Path, text: str, error: str) -> None:
    with pytest.raises(ConfigurationError, match=error):
        load(tmp_path, text)


def test_two_applications_with_one_pipeline_are_refused(tmp_path: Path) -> None:
    deployment = load(tmp_path)
    (tmp_path / "second.py").write_text(APPLICATION.format(name="first"))
    with pytest.raises(CannotRun, match="second: its pipeline is first, as in first"):
        read_graphs(deployment)


def test_a_spark_program_gets_its_arguments_the_gateway_and_the_settings(tmp_path: Path) -> None:
    clean = role(load(tmp_path), "clean")
    said = "import os, shlex, sys\nprint(__name__, sys.argv, sys.path[0], os.environ['HEADRACE_GATEWAY'])\n"
    said += "print(shlex.split(os.environ['PYSPARK_SUBMIT_ARGS']), os.environ['HEADRACE_TOKEN'])\n"
    (tmp_path / "clean.py").write_text(said)
    reads, writes = os.pipe()
    try:
        command = clean.command("127.0.0.1:1")
        done = subprocess.run(
            command, cwd=tmp_path, env=dict(clean.environ), stdin=reads, capture_output=True, text=True, check=False
        )
    finally:
        os.close(writes)
        os.close(reads)
    assert done.returncode == 0, done.stderr
    first, second = done.stdout.splitlines()
    assert first == f"__main__ ['clean.py', '--from', 'a b'] {tmp_path} 127.0.0.1:1"
    settings = ["spark.driver.memory=1g", "spark.sql.shuffle.partitions=3", 'spark.app.label=it\'s a "label"']
    words = ["--master", "local[3]", *(word for setting in settings for word in ("--conf", setting)), "pyspark-shell"]
    assert second == f"{words} of-clean"


STOPPED = """
import sys, types

ended = __import__("threading").Event()


class Query:
    def stop(self):
        print("stopped", flush=True)
        ended.set()


class Session:
    streams = types.SimpleNamespace(active=[Query()])


class SparkSession:
    getActiveSession = staticmethod(lambda: None)
    _instantiatedSession = Session()


sys.modules["pyspark.sql"] = types.SimpleNamespace(SparkSession=SparkSession)
print("runs", flush=True)
while not ended.wait(0.05):
    pass
print("ended", flush=True)
"""


STARTS_LATER = STOPPED.replace(
    'print("runs", flush=True)',
    """
active = Session.streams.active.copy()


class Late:
    asked = __import__("threading").Event()

    @property
    def active(self):
        found = active if self.asked.is_set() else []
        self.asked.set()
        return found


Session.streams = Late()
print("runs", flush=True)
""",
)
"""Its query is active only after somebody has looked for queries to stop."""


@pytest.mark.parametrize("way", ["SIGTERM", "its supervisor ends"])
@pytest.mark.parametrize(
    ("program", "code", "said"),
    [(STOPPED, 0, ["stopped", "ended"]), (STARTS_LATER, 0, ["stopped", "ended"]), ("", 128 + signal.SIGTERM, [])],
)
def test_a_spark_program_is_stopped_by_stopping_its_queries(
    tmp_path: Path, way: str, program: str, code: int, said: list[str]
) -> None:
    file = tmp_path / "clean.py"
    file.write_text(program or "import time\nprint('runs', flush=True)\ntime.sleep(600)\n")
    command = [sys.executable, "-m", "headrace.cli.spark_program", "--gateway", "127.0.0.1:1", str(file)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        assert process.stdout.readline() == "runs\n"
        if way == "SIGTERM":
            os.kill(process.pid, signal.SIGTERM)
        else:
            process.stdin.close()
        assert process.stdout.read().splitlines() == said
        assert process.wait(120) == code


def test_all_of_them_stop_after_the_sources_and_before_the_sinks(tmp_path: Path) -> None:
    others = {
        "source": (Kind.SOURCE, notes("source")),
        "one": (Kind.PIPELINE, notes("one")),
        "two": (Kind.PIPELINE, notes("two")),
        "query": (Kind.QUERY, notes("query")),
        "sink": (Kind.SINK, notes("sink")),
    }
    planned = plan(tmp_path, notes("gateway", listens=True), **others)
    watched = Watched(planned, probe=Probe(Known(connected=frozenset(others))))
    watched.when(begun(tmp_path, "gateway", *others), stop)
    assert watched.run().exit_code == 0
    ended = (tmp_path / "ended").read_text().split()
    assert (ended[0], set(ended[1:4]), ended[4:]) == ("source", {"one", "two", "query"}, ["sink", "gateway"])


def test_the_deployment_ends_once_all_applications_and_programs_have(tmp_path: Path) -> None:
    planned = plan(tmp_path, sink=(Kind.SINK, SLEEPS), one=(Kind.PIPELINE, "exit 0"), query=(Kind.QUERY, "sleep 1"))
    bounded = tuple(replace(one, may_end=one.kind is not Kind.SINK) for one in planned.others)
    watched = Watched(replace(planned, others=bounded))
    assert watched.run().exit_code == 0
    assert watched.states("query")[-1] == "ended"
