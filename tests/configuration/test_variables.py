"""Environment variables in configuration files: the syntax is a shell's."""

import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.configuration.variables import VariableError, expanded

ENVIRON = {"SET": "value", "EMPTY": "", "ODD": "a $SET ${SET} } $$", "_a1": "under"}


@pytest.mark.parametrize(
    "text",
    [
        "${SET}",
        "x${SET}y${SET}z",
        "${EMPTY}",
        "${SET:-other}",
        "${EMPTY:-other}",
        "${UNSET:-other}",
        "${UNSET:-}",
        "${UNSET:-a:-b}",
        "${UNSET:-127.0.0.1:7433}",
        "${ODD}",
        "${_a1}",
        "plain text",
        "${SET}\n${UNSET:-second line}",
    ],
)
def test_variables_mean_what_they_mean_in_a_shell(text: str) -> None:
    shell = subprocess.run(
        ["/bin/sh", "-c", f'printf %s "{text}"'], env=ENVIRON, capture_output=True, text=True, check=True, timeout=60
    )
    assert expanded(text, ENVIRON) == shell.stdout


@given(st.text(), st.text())
def test_a_dollar_sign_is_written_twice_and_a_value_is_not_expanded_again(before: str, value: str) -> None:
    assert expanded(before.replace("$", "$$") + "${NAME}", {"NAME": value}) == before + value


@given(st.text(alphabet="${}:-NAM E", max_size=12))
def test_every_text_is_expanded_or_refused(text: str) -> None:
    try:
        result = expanded(text, {})
    except VariableError:
        assert "${" in text
    else:
        assert "${" not in text.replace("$$", "") or ":-" in text
        assert "$" in text or result == text


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("${UNSET}", "the environment variable UNSET is not set; set it, or write ${UNSET:-default}"),
        ("${SET:default}", "write ${SET:-default}: the default of a variable follows :-"),
        ("${UNSET:s3cret}", "write ${UNSET:-default}: the default of a variable follows :-"),
        ("${SET-s3cret}", "write ${SET:-default}: the default of a variable follows :-"),
        ("${SET:=s3cret}", "write ${SET:-default}: the default of a variable follows :-"),
        ("${s3cret", "write ${NAME} or ${NAME:-default} for a variable, and $$ for a dollar sign"),
        ("${}", "write ${NAME} or ${NAME:-default} for a variable, and $$ for a dollar sign"),
        ("${1s3cret}", "write ${NAME} or ${NAME:-default} for a variable, and $$ for a dollar sign"),
        ("${s3 cret}", "write ${NAME} or ${NAME:-default} for a variable, and $$ for a dollar sign"),
    ],
)
def test_what_is_not_understood_is_refused_without_showing_it(text: str, told: str) -> None:
    with pytest.raises(VariableError) as caught:
        expanded(text, ENVIRON)
    assert str(caught.value) == told
    assert "s3cret" not in str(caught.value)
