"""The files of the vectors are what their schemas say, and hold together."""

import json
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from tests.vectors.files import FOLDER

FILES = sorted(path for path in FOLDER.rglob("*.json") if not path.name.endswith(".schema.json"))


@pytest.mark.parametrize("path", FILES, ids=[path.relative_to(FOLDER).as_posix() for path in FILES])
def test_a_file_keeps_to_its_schema(path: Path) -> None:
    whole = json.loads(path.read_text())
    schema = json.loads((path.parent / whole["$schema"]).read_text())
    Draft202012Validator.check_schema(schema)
    errors = [f"{error.json_path}: {error.message}" for error in Draft202012Validator(schema).iter_errors(whole)]
    assert not errors, errors[:5]


@pytest.mark.parametrize("path", FILES, ids=[path.relative_to(FOLDER).as_posix() for path in FILES])
def test_a_name_is_given_once_in_a_file(path: Path) -> None:
    for cases in lists(json.loads(path.read_text())):
        names = [case["name"] for case in cases if isinstance(case, dict) and "name" in case]
        assert len(names) == len(set(names)), sorted(name for name in names if names.count(name) > 1)


def lists(value: Any) -> list[list[Any]]:
    """Every list within a value."""
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return ([value] if isinstance(value, list) else []) + [found for each in inner for found in lists(each)]


def test_the_page_names_every_file() -> None:
    page = (FOLDER / "README.md").read_text()
    for path in FILES:
        assert f"`{path.relative_to(FOLDER).as_posix()}`" in page
