"""Why Spark's JVM has ended before it was ready: what it has printed, or what this machine lacks."""

import os
import re
import resource
import tempfile
from collections.abc import Sequence

from headrace.engine.spark.causes import is_full
from headrace.machine.descriptors import REMEDY, in_use, limit

_SAYS_WHY = re.compile(r"Error|Exception|Too many|annot|No space|not found|unable", re.IGNORECASE)
_LEAST_DESCRIPTORS = 64
_JVM_DESCRIPTORS = 512
"""How many descriptors the JVM needs: it opens each of Spark's archives, which are about 280."""


def why_exited(printed: Sequence[str]) -> str:
    """Returns why the JVM has ended, for people.

    Args:
        printed: The last lines that it has printed, the newest last.
    """
    lacks = _lacks()
    lines = [line.strip() for line in printed if line.strip()]
    said = next((line for line in lines if _SAYS_WHY.search(line)), lines[-1] if lines else "")
    return "; ".join(text for text in (lacks, said and f"it has printed: {said[:500]}") if text) or (
        "it has printed nothing; run headrace doctor, which starts Java and looks for what this machine lacks"
    )


def _lacks() -> str:
    """Returns what this process or its machine lacks; empty if it seems to lack nothing."""
    home = os.environ.get("JAVA_HOME")
    if home and not os.access(os.path.join(home, "bin", "java"), os.X_OK):
        return f"JAVA_HOME is {home}, where no bin/java can be run: set it to the folder of a JDK 17 or newer, or unset it"
    used, most = in_use(), limit()
    if most is not None and most - used < _LEAST_DESCRIPTORS:
        return f"{used} of {most} descriptors of this process are in use: {REMEDY}"
    _, most_of_jvm = resource.getrlimit(resource.RLIMIT_NOFILE)
    # Java raises its own limit as far as it may.
    if most_of_jvm != resource.RLIM_INFINITY and most_of_jvm < _JVM_DESCRIPTORS:
        return f"Spark's JVM may have {most_of_jvm} descriptors at most, and needs {_JVM_DESCRIPTORS}: {REMEDY}"
    folder = tempfile.gettempdir()
    return f"{folder} has no room left" if is_full(folder) else ""
