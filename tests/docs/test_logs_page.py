"""The page about logs has the fields that all lines share."""

import json

from tests.docs.pages import blocks, codes, table

from headrace.logs.output import FIELDS, HEAD

LOGS = "docs/reference/logs.md"


def test_fields() -> None:
    assert [name for row in table(LOGS, "Fields") for name in codes(row[0])] == [*HEAD, *FIELDS]


def test_the_examples_have_them() -> None:
    examples = blocks(LOGS, "json")
    assert examples
    for example in examples:
        document = json.loads(example.text)
        assert tuple(document)[: len(HEAD)] == HEAD
        assert set(document) <= {*HEAD, *FIELDS}
