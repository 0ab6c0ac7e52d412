"""The page about logs has the fields that all lines share."""

import json

from tests.docs.pages import blocks, codes, table

from headrace.contract.logs import FIELDS, HEAD

LOGS = "docs/logs.md"


def test_fields() -> None:
    assert [name for row in table(LOGS, "Fields") for name in codes(row[0])] == [*HEAD, *FIELDS]


def test_the_example_has_them() -> None:
    (example,) = blocks(LOGS, "json")
    document = json.loads(example.text)
    assert tuple(document)[: len(HEAD)] == HEAD
    assert set(document) <= {*HEAD, *FIELDS}
