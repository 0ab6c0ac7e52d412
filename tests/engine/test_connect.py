"""Sessions of Spark Connect, in which nothing can be registered: their server has the data source."""

import os
import re

import pytest

from headrace.engine import HeadraceError, StoredStates, register, start
from headrace.pipelines import Pipeline

SAYS = re.escape("a Spark Connect session has its driver elsewhere: connect it to a server that headrace connect-server runs")


def test_a_session_of_spark_connect_is_refused_in_one_sentence_that_says_what_to_do() -> None:
    if not os.environ.get("CI"):
        pytest.importorskip("grpc_status", reason="the client of Spark Connect needs grpcio-status")
    from pyspark.sql.connect.session import SparkSession

    # It calls its server when it is first used.
    session: object = SparkSession("sc://127.0.0.1:1")
    app = Pipeline("copies")
    app.source("a/*").map(lambda message: message.value).sink("copies")
    with pytest.raises(HeadraceError, match=SAYS) as refused:
        register(session)  # type: ignore[arg-type]
    assert str(refused.value).count(". ") == 0
    with pytest.raises(HeadraceError, match=SAYS):
        start(app, session, "checkpoint")  # type: ignore[arg-type]
    with pytest.raises(HeadraceError, match=SAYS):
        StoredStates(session, "checkpoint", app.graph)  # type: ignore[arg-type]
