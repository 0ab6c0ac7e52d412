"""Files of variables: what they contain, in which order variables are looked up, and which errors name what is wrong."""

import os
import string
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headrace.configuration import ConfigurationError, ConfigurationFile, read_env_file

names = st.text(string.ascii_letters + "_", min_size=1, max_size=8)
values = st.text(st.characters(exclude_categories=["Cs", "Cc", "Zl", "Zp"], exclude_characters="'"), max_size=20)


def file(folder: Path, content: str | bytes) -> Path:
    path = folder / "secrets.env"
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


@settings(max_examples=200, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.dictionaries(names, values))
def test_every_variable_is_read_as_it_was_written(tmp_path: Path, written: dict[str, str]) -> None:
    lines = [f"{name}='{value}'" for name, value in written.items()]
    assert read_env_file(file(tmp_path, "# secrets\n\n" + "\n".join(lines))) == written


def test_quotes_white_space_and_export_are_not_part_of_a_value(tmp_path: Path) -> None:
    text = '\ufeffexport A= x y # z \r\nB="q "\nC=\nD=$A\nE=\'"\'\n'
    found = read_env_file(file(tmp_path, text))
    assert found == {"A": "x y # z", "B": "q ", "C": "", "D": "$A", "E": '"'}


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("A=1\nhidden\n", ":2: write NAME=value"),
        ("A = hidden", ":1: write NAME=value"),
        ("9A=hidden", ":1: write NAME=value"),
        ("A='hidden", ":1: A: quotes go around the whole value"),
        ('A="hid$den"', ":1: A: quotes go around the whole value"),
        ("A=1\nB=2\nA=hidden", ":3: A: has a value above already"),
        (b"A=hidden\0", ": is binary, and no text"),
        (b"A=hidden\xff", ": is not UTF-8 text"),
        (b"#" * ((1 << 20) + 1), ": is too large"),
    ],
)
def test_what_is_wrong_is_named_without_the_value(tmp_path: Path, content: str | bytes, said: str) -> None:
    path = file(tmp_path, content)
    with pytest.raises(ConfigurationError) as refused:
        read_env_file(path)
    assert f"{path}{said}" in str(refused.value)
    assert "den" not in str(refused.value)


def test_what_is_no_file_is_named(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    for name, said in (("absent", "there is no such file"), ("fifo", "no file"), ("", "is a folder")):
        with pytest.raises(ConfigurationError, match=said):
            read_env_file(tmp_path / name)


def test_a_variable_is_looked_up_in_the_file_then_in_the_environment(tmp_path: Path) -> None:
    file(tmp_path, "BOTH=file\nFILE=file\nEMPTY=\n")
    (tmp_path / "c.toml").write_text(
        'env_file = "${NAME}.env"\nvalues = ["${BOTH}", "${FILE}", "${ENVIRONMENT}", "${EMPTY:-default}", "${NONE:-default}"]\n'
    )
    reading = ConfigurationFile(tmp_path / "c.toml", {"NAME": "secrets", "BOTH": "environment", "ENVIRONMENT": "environment"})
    path, variables = reading.take_env_file(("env_file",))
    assert (path, set(variables)) == (tmp_path / "secrets.env", {"BOTH", "FILE", "EMPTY"})
    assert reading.value(("values",)) == ["file", "file", "environment", "default", "default"]
    assert reading.variables(("values",)) == {"BOTH", "FILE", "ENVIRONMENT", "EMPTY", "NONE"}
    reading.check()


def test_a_file_that_cannot_be_read_is_a_problem_of_its_key(tmp_path: Path) -> None:
    (tmp_path / "c.toml").write_text('\nenv_file = "nowhere.env"\n')
    reading = ConfigurationFile(tmp_path / "c.toml", {})
    assert reading.take_env_file(("env_file",)) == (tmp_path / "nowhere.env", {})
    with pytest.raises(ConfigurationError, match=r"c\.toml:2: env_file: .*nowhere\.env: there is no such file"):
        reading.check()
