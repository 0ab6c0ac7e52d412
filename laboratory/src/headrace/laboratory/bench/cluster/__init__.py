"""The benchmark of a Spark cluster: standalone, with workers that are processes of this machine."""
