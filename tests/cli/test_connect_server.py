"""What `headrace connect-server` refuses before it starts Spark. `tests/cluster/test_spark_connect.py` runs it."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from headrace.cli.connect_server import connect_server
from headrace.terminal import Failure


def test_an_address_that_is_none_is_refused() -> None:
    with pytest.raises(Failure, match="--listen '15002' is not host:port") as refused:
        CliRunner().invoke(connect_server, ["--listen", "15002"], catch_exceptions=False, standalone_mode=False)
    assert refused.value.exit_code == 2


def test_tls_without_a_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Failure, match="--tls alone is not enough"):
        CliRunner().invoke(connect_server, ["--tls"], catch_exceptions=False, standalone_mode=False)
