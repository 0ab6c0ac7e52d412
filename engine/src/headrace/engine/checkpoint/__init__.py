"""The contents of a query's checkpoint: Spark's logs, positions, runs, and the votes of sinks."""
