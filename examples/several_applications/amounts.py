"""A plain Spark program: the amount of each order, as JSON."""

from headrace.engine import build_session

spark = build_session("amounts")
orders = spark.readStream.format("headrace").option("stream", "orders/*").option("pipeline", "amounts").load()
parts = orders.selectExpr("split(CAST(value AS STRING), ',') AS parts")
amounts = parts.selectExpr("to_json(struct(parts[0] AS customer, CAST(parts[1] AS DOUBLE) AS amount)) AS value")
query = amounts.writeStream.format("headrace").option("sink", "amounts").option("checkpointLocation", "checkpoints/amounts")
query.start().awaitTermination()
