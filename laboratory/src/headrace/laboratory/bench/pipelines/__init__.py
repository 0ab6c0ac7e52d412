"""The benchmark of pipelines, compared to Spark alone, a plain loop, and peers."""
