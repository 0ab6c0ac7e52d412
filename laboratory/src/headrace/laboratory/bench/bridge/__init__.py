"""`headrace bench bridge`: the bridge to Kafka Connect with Debezium, beside Debezium's own engine and a worker of Connect."""
