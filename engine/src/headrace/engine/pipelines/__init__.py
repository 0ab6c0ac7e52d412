"""Pipelines on Spark: blocks instead of rows in the shuffle, states that workers hold and Spark's store makes durable."""
