"""`headrace bench latency`: how long a single message takes."""
