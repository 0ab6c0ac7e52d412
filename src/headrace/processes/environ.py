"""The environment of the processes that a command starts."""

import os
from pathlib import Path

from headrace.contract.logs import VERBOSE_VARIABLE


def spark_environ(scratch: Path) -> dict[str, str]:
    """Returns the environment of a Spark driver: its JVM starts fast, and temporary files go to `scratch`.

    Variables of Headrace are not inherited, so that none names another gateway.
    """
    inherited = {
        name: value for name, value in os.environ.items() if not name.startswith("HEADRACE_") or name == VERBOSE_VARIABLE
    }
    # In a run this short, the JVM's optimising compiler and parallel collector cost more time than they save.
    java = f"{inherited.get('JDK_JAVA_OPTIONS', '')} -XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:-UsePerfData"
    own = {
        "JDK_JAVA_OPTIONS": f"{java.strip()} -Djava.io.tmpdir={scratch}",
        "SPARK_LOCAL_DIRS": str(scratch),
        "TMPDIR": str(scratch),
        "no_grpc_proxy": "127.0.0.1",
    }
    return {**inherited, **own}
