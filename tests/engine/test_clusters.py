"""What is refused because executors run on other machines: for each master, checkpoint and gateway."""

from typing import Any

import pytest
from pyspark.sql import SparkSession

from headrace.engine import CheckpointError, OptionError
from headrace.engine.sink.options import parse_sink
from headrace.engine.source.options import parse
from headrace.engine.spark.shared_checkpoint import refuse_local_checkpoint
from headrace.engine.wire.gateway_options import Defaults

HERE = ["local", "local[*]", "local[2,4]", "local-cluster[2,1,1024]"]
LOOPBACK = ["spark://127.0.0.1:7077", "spark://localhost:7077", "spark://[::1]:7077", "spark://127.0.0.1:1,localhost:2"]
ELSEWHERE = ["spark://host:7077", "spark://10.0.0.1:7077", "spark://127.0.0.1:1,host:2", "yarn", "k8s://https://127.0.0.1:6443"]


class OnMaster:
    """A real session, as it would be on another master."""

    class _Context:
        def __init__(self, master: str) -> None:
            self.master = master

    def __init__(self, spark: SparkSession, master: str) -> None:
        self.sparkContext = self._Context(master)
        self._jvm, self._jsparkSession = spark._jvm, spark._jsparkSession


def check_checkpoint(spark: SparkSession, master: str, checkpoint: str, shared: bool = False) -> None:
    session: Any = OnMaster(spark, master)
    refuse_local_checkpoint(session, checkpoint, shared=shared)


@pytest.mark.parametrize("checkpoint", ["checkpoints/a", "/data/a", "file:/data/a", "file:///data/a"])
def test_a_checkpoint_on_a_local_disk_is_for_executors_on_this_machine(spark: SparkSession, checkpoint: str) -> None:
    for master in HERE:
        check_checkpoint(spark, master, checkpoint)
    for master in LOOPBACK + ELSEWHERE:
        with pytest.raises(CheckpointError) as refused:
            check_checkpoint(spark, master, checkpoint)
        assert all(words in str(refused.value) for words in (checkpoint, master, "sharedCheckpoint=true", "--shared-checkpoint"))
        check_checkpoint(spark, master, checkpoint, shared=True)


@pytest.mark.parametrize("checkpoint", ["hdfs://127.0.0.1:9/a", "nobody-knows://a/b"])
def test_another_file_system_is_for_every_master(spark: SparkSession, checkpoint: str) -> None:
    """Spark itself says where it knows no such file system."""
    for master in HERE + LOOPBACK + ELSEWHERE:
        check_checkpoint(spark, master, checkpoint)


@pytest.mark.parametrize(
    "gateway", ["127.0.0.1:7433", "127.1.2.3:1", "localhost:7433", "[::1]:7433", "0.0.0.0:7433", "[::]:7433"]
)
def test_a_gateway_at_a_loopback_address_is_for_executors_on_this_machine(gateway: str) -> None:
    for master in HERE + LOOPBACK:
        assert parse({"stream": "a/*", "gateway": gateway}, Defaults(master=master)).gateway == gateway
    for master in ELSEWHERE:
        with pytest.raises(OptionError) as refused:
            parse({"stream": "a/*", "gateway": gateway}, Defaults(master=master))
        assert all(words in str(refused.value) for words in ("option gateway", gateway, master, "loopbackGateway=true"))
        with pytest.raises(OptionError, match="option gateway"):
            parse_sink({"sink": "a", "gateway": gateway}, Defaults(master=master))
        parse({"stream": "a/*", "gateway": gateway, "loopbackGateway": "true"}, Defaults(master=master))
        parse_sink({"sink": "a", "gateway": gateway, "loopbackGateway": "true"}, Defaults(master=master))


def test_so_is_one_that_nobody_has_named() -> None:
    with pytest.raises(OptionError, match=r"127\.0\.0\.1:7433 is a loopback address"):
        parse({"stream": "a/*"}, Defaults(master="yarn"))


@pytest.mark.parametrize("gateway", ["gateway:7433", "10.0.0.1:7433", "[fd00::1]:7433", "localhost.example.org:7433"])
def test_a_gateway_at_another_address_is_for_every_master(gateway: str) -> None:
    for master in HERE + LOOPBACK + ELSEWHERE:
        assert parse({"stream": "a/*", "gateway": gateway}, Defaults(master=master)).gateway == gateway


@pytest.mark.parametrize("name", ["loopbackGateway", "sharedCheckpoint"])
def test_what_is_said_of_them_is_true_or_false(name: str) -> None:
    with pytest.raises(OptionError, match=f"option {name}: 'yes' is not valid: want true or false"):
        parse({"stream": "a/*", name: "yes"}, Defaults())
    assert parse({"stream": "a/*", name: "TRUE"}, Defaults()).shared_checkpoint is (name == "sharedCheckpoint")
