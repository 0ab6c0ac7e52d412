"""The benchmark of pipelines, beside Spark by itself, a plain loop, and peers."""
