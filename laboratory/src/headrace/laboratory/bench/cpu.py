"""The processor time of Spark on this machine; gateways and connectors do not count."""

import psutil


def spark_cpu_s() -> float:
    """The processor time of the driver, and of Spark's JVM with its processes, also after these have ended, in seconds."""
    own = psutil.Process()
    jvms = [child for child in own.children() if child.name() == "java"]
    total = own.cpu_times().user + own.cpu_times().system
    for process in (each for jvm in jvms for each in (jvm, *jvm.children(recursive=True))):
        times = process.cpu_times()
        total += times.user + times.system + times.children_user + times.children_system
    return float(total)
