"""Where the driver and the executors of a session run."""

from typing import TYPE_CHECKING

from headrace.contract.addresses import leads_here
from headrace.contract.errors import HeadraceError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_STANDALONE = "spark://"


def is_one_jvm(master: str) -> bool:
    """Whether driver and executors share one JVM; in a `local-cluster` they do not."""
    return master == "local" or master.startswith("local[")


def is_this_machine(master: str) -> bool:
    """Whether all executors run on the driver's machine, as its children: `local`, `local[...]`, `local-cluster[...]`."""
    return is_one_jvm(master) or master.startswith("local-cluster[")


def shares_loopback(master: str) -> bool:
    """Whether 127.0.0.1 is the same machine for all executors as for the driver.

    This is also true if a standalone master is reached at a loopback address: workers on other machines could not connect to it.
    """
    if is_this_machine(master):
        return True
    hosts = master.removeprefix(_STANDALONE).split(",")
    return master.startswith(_STANDALONE) and all(leads_here(host) for host in hosts)


def refuse_connect(spark: "SparkSession") -> None:
    """Rejects a Spark Connect session, whose driver is its server's process.

    Raises:
        HeadraceError: The session is a Spark Connect session.
    """
    if type(spark).__module__.startswith("pyspark.sql.connect."):
        raise HeadraceError(
            "a Spark Connect session has its driver elsewhere: connect it to a server that headrace connect-server runs, where "
            'format("headrace") needs no registration, or, as applications need it, create the session in this process, with '
            "headrace.engine.build_session(...) or with SparkSession.builder without remote(...) and SPARK_REMOTE"
        )
