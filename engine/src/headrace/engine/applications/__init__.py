"""Applications on Spark: blocks instead of rows in the shuffle, and states that workers cache and Spark's store makes durable."""
