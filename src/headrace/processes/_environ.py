"""The environment of processes that a command starts."""

import os
from pathlib import Path


def spark_environ(scratch: Path) -> dict[str, str]:
    """An environment for Spark's driver and its company: a quick JVM, and what is left behind lies in the scratch folder.

    Nothing in it points anybody to another gateway.
    """
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("HEADRACE_")}
    # In a run this short, the JVM's optimising compiler and parallel collector take more time than they give back.
    java = f"{inherited.get('JDK_JAVA_OPTIONS', '')} -XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:-UsePerfData"
    own = {
        "JDK_JAVA_OPTIONS": f"{java.strip()} -Djava.io.tmpdir={scratch}",
        "SPARK_LOCAL_DIRS": str(scratch),
        "TMPDIR": str(scratch),
        "no_grpc_proxy": "127.0.0.1",
    }
    return {**inherited, **own}
