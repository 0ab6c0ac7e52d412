"""The benchmark of a standalone Spark cluster, whose workers are processes on this machine."""
