"""The environment of processes that a command starts."""

import os
from pathlib import Path

VERBOSE = "HEADRACE_VERBOSE"
"""Set where --verbose was given, also for the processes that the command starts. The engine knows it, too."""


def spark_environ(scratch: Path) -> dict[str, str]:
    """The environment of Spark's driver and its processes: a JVM that starts fast; temporary files go to the scratch folder.

    Variables of Headrace are not inherited, so that none names another gateway.
    """
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("HEADRACE_") or name == VERBOSE}
    # In a run this short, the JVM's optimising compiler and parallel collector take more time than they give back.
    java = f"{inherited.get('JDK_JAVA_OPTIONS', '')} -XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:-UsePerfData"
    own = {
        "JDK_JAVA_OPTIONS": f"{java.strip()} -Djava.io.tmpdir={scratch}",
        "SPARK_LOCAL_DIRS": str(scratch),
        "TMPDIR": str(scratch),
        "no_grpc_proxy": "127.0.0.1",
    }
    return {**inherited, **own}
