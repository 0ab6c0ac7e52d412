"""The page about clusters fetches for S3 what the tests of S3 run with."""

import shlex
from pathlib import Path

from scripts.brokers._s3 import fetch_arguments
from tests.docs.pages import blocks


def test_the_client_of_s3_is_fetched_as_on_the_page() -> None:
    first, *_ = (block for block in blocks("docs/run/cluster.md", "bash") if block.heading == "S3")
    assert shlex.split(first.text.replace("\\\n", "")) == ["spark-submit", *fetch_arguments(Path("/opt/headrace/s3a"))]
