"""The one loader of configuration files: the gateway, connectors and deployments report the same mistake in the same words."""

import threading
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest
from pydantic import BaseModel, ConfigDict

from headrace.configuration import ConfigurationError, ConfigurationFile, Duration, Flag, Size
from headrace.configuration.validation import MAX_DURATION_S
from headrace.connectors.configuration import load_connector
from headrace.deploy import load_deployment
from headrace.gateway import load_config


class Inner(BaseModel):
    model_config = ConfigDict(extra="forbid")

    size: Size = 0
    name: str = ""


class Outer(BaseModel):
    model_config = ConfigDict(extra="forbid")

    inner: Inner = Inner()
    several: tuple[Inner, ...] = ()
    maybe: Inner | None = None
    listen: str = ""


def read(folder: Path, text: str, flags: dict[tuple[str, ...], Flag] | None = None, **environ: str) -> Outer:
    (folder / "c.toml").write_text(text)
    reading = ConfigurationFile(folder / "c.toml", environ, flags)
    found = reading.take(Outer, reading.table(), known_keys=["inner.secret"])
    reading.check()
    assert found is not None
    return found


def problems(folder: Path, text: str, flags: dict[tuple[str, ...], Flag] | None = None, **environ: str) -> list[str]:
    with pytest.raises(ConfigurationError) as caught:
        read(folder, text, flags, **environ)
    return [line.removeprefix(f"{folder}/") for line in str(caught.value).splitlines()]


LOADERS: dict[str, tuple[Callable[[Path], object], str, str]] = {
    "gateway": (load_config, "[log]\nlevel = {value}\n", "log.level"),
    "connector": (
        lambda path: load_connector(str(path)),
        'connector = "file"\nsource = {value}\npath = "x"\n',
        "source",
    ),
    "connector's gateway": (
        lambda path: load_connector(str(path)),
        "[gateway]\ntoken = {value}\n",
        "gateway.token",
    ),
    "deployment": (load_deployment, "[gateway]\nlog_level = {value}\n", "gateway.log_level"),
}


@pytest.mark.parametrize("loader", LOADERS)
@pytest.mark.parametrize(
    ("value", "told"),
    [
        (
            '"${NOT_SET}"',
            "the environment variable NOT_SET is not set; set it, or write ${NOT_SET:-default}",
        ),
        ('"${NOT_SET:s3cret}"', "write ${NOT_SET:-default}: the default of a variable follows :-"),
        ('"s3${cret"', "write ${NAME} or ${NAME:-default} for a variable, and $$ for a dollar sign"),
        ("[['s3cret']]", "must be text in quotes"),
    ],
)
def test_every_file_reports_a_mistake_in_the_same_words_with_file_line_and_field(
    tmp_path: Path, loader: str, value: str, told: str
) -> None:
    load, text, field = LOADERS[loader]
    path = tmp_path / "c.toml"
    path.write_text(text.format(value=value))
    with pytest.raises(ConfigurationError) as caught:
        load(path)
    found = [problem for problem in caught.value.problems if problem.key == field]
    if value.startswith("[[") and loader == "gateway":
        told = "must be 'debug', 'info', 'warning' or 'error'"
    assert [str(problem) for problem in found] == [f"{path}:2: {field}: {told}"]
    assert "s3cret" not in str(caught.value)


def test_an_option_wins_over_the_file_and_its_value_is_taken_as_it_is(tmp_path: Path) -> None:
    text = '[inner]\nsize = "1 cow"\nname = "${NAME}"\n'
    flags = {("inner", "size"): Flag("--size", "2kb"), ("listen",): Flag("--listen", "${LISTEN} $$")}
    found = read(tmp_path, text, flags, NAME="n")
    assert (found.inner.size, found.inner.name, found.listen) == (2048, "n", "${LISTEN} $$")
    (problem,) = problems(tmp_path, text, {("inner", "size"): Flag("--size", "2 apples")}, NAME="n")
    assert (
        problem == "--size: '2 apples' is not a size; write for instance 64mb; units are b, kb, mb, gb and tb, in powers of 1024"
    )


def test_an_option_for_a_table_that_is_something_else_in_the_file(tmp_path: Path) -> None:
    assert problems(tmp_path, "inner = 3\n", {("inner", "size"): Flag("--size", 1)}) == ["c.toml:1: inner: must be a table"]


def test_without_a_file_there_are_only_options_and_problems_name_them() -> None:
    reading = ConfigurationFile(None, {}, {("inner", "size"): Flag("--size", "x"), ("maybe", "name"): Flag("--name", "n")})
    assert reading.table() == {"inner": {"size": "x"}, "maybe": {"name": "n"}}
    assert reading.take(Outer, reading.table()) is None
    reading.report(("listen",), "is missing")
    with pytest.raises(ConfigurationError) as caught:
        reading.check()
    assert str(caught.value).splitlines() == [
        "--size: 'x' is not a size; write for instance 64mb; units are b, kb, mb, gb and tb, in powers of 1024",
        "configuration: listen: is missing",
    ]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("[inner]\nsiz = 1\n", "c.toml:2: inner.siz: unknown key; did you mean size?"),
        ("[inner]\nsecrt = 1\n", "c.toml:2: inner.secrt: unknown key; did you mean secret?"),
        ("[[several]]\n[[several]]\nnme = ''\n", "c.toml:3: several[1].nme: unknown key; did you mean name?"),
        ("[maybe]\nnme = ''\n", "c.toml:2: maybe.nme: unknown key; did you mean name?"),
        ("size = 1\n", "c.toml:1: size: unknown key; did you mean inner.size?"),
        ("[inner]\nzzz = 1\n", "c.toml:2: inner.zzz: unknown key"),
        ("several = 3\n", "c.toml:1: several: must be a list in brackets"),
    ],
)
def test_an_unknown_key_is_told_what_was_probably_meant(tmp_path: Path, text: str, told: str) -> None:
    assert problems(tmp_path, text) == [told]


def test_a_secret_is_the_value_of_one_variable_and_never_in_the_file(tmp_path: Path) -> None:
    path = tmp_path / "c.toml"
    path.write_text(
        'good = "${TOKEN}"\nliteral = "s3cret"\nunset = "${NONE}"\nempty = "${EMPTY}"\n'
        'default = "${TOKEN:-s3cret}"\npart = "x${TOKEN}"\nnumber = 3\n'
    )
    reading = ConfigurationFile(path, {"TOKEN": "t$${x}", "EMPTY": ""})
    assert reading.secret(("good",)) == "t$${x}"
    assert reading.secret(("missing",)) is None
    for name in ("literal", "unset", "empty", "default", "part", "number"):
        assert reading.secret((name,)) == ""
    assert reading.table()["good"] == "t$${x}"
    with pytest.raises(ConfigurationError) as caught:
        reading.check()
    assert [f"{problem.line}: {problem.message}" for problem in caught.value.problems] == [
        '2: write literal = "${VARIABLE}": the file must not contain secrets',
        "3: the environment variable NONE is not set",
        "4: the environment variable EMPTY is not set",
        '5: write default = "${VARIABLE}": the file must not contain secrets',
        '6: write part = "${VARIABLE}": the file must not contain secrets',
        '7: write number = "${VARIABLE}": the file must not contain secrets',
    ]
    assert "s3cret" not in str(caught.value)


class Waits(BaseModel):
    wait_seconds: Duration = 0.0


@pytest.mark.parametrize("value", ["1e308", "4e9", "4000000000", '"60000 days"'])
def test_a_duration_is_one_that_clocks_and_threads_take(tmp_path: Path, value: str) -> None:
    (tmp_path / "c.toml").write_text(f"wait_seconds = {value}")
    reading = ConfigurationFile(tmp_path / "c.toml", {}, None)
    reading.take(Waits, reading.table())
    with pytest.raises(ConfigurationError, match=r"wait_seconds: .* is too long; a duration has at most 100 years"):
        reading.check()


def test_the_longest_duration_is_one_that_a_thread_waits_for() -> None:
    assert threading.TIMEOUT_MAX > MAX_DURATION_S
    assert timedelta.max.total_seconds() > MAX_DURATION_S
