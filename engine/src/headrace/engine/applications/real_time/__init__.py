"""Real-time mode: messages are processed as they arrive, and micro-batches of Spark only commit what was done.

A worker in the driver follows the streams, runs all steps, and delivers results to at-least-once sinks at once. When Spark asks
how far the next micro-batch may read, the worker stops between two messages, writes the states that have changed, and continues
with the messages of the next micro-batch. Spark's tasks find everything done, except for the results for sinks of other modes.
A micro-batch that was planned and not committed is repeated without the worker, as any other.

The worker may share the buckets of keys with processes of its own, which run the steps after a shuffle.

Others use `BucketProcess`, `Processor`, `RealTimeReader`, `RealTimeWorker`, `Run`, `Service`.
"""
