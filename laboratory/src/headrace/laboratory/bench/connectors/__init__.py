"""`headrace bench connectors`: from real brokers to Spark, against the brokers' own clients and against Spark's own source."""
