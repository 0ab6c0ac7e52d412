"""A real Spark standalone cluster on one machine: a master and workers, each in a separate JVM, as on separate machines.

with SparkCluster(Path("cluster"), workers=2) as cluster:
    subprocess.run([*cluster.submit, "application.py"], env=cluster.environ)
    cluster.workers[0].kill()
"""

from headrace.laboratory.cluster.cluster import SparkCluster
from headrace.laboratory.cluster.daemon import Worker
from headrace.laboratory.errors import ClusterError

__all__ = ["ClusterError", "SparkCluster", "Worker"]
