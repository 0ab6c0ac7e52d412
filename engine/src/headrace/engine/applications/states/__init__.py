"""States of buckets: in the memory of a worker, and in files of the checkpoint.

Others use `STATE_CACHE`, `BucketFiles`, `Changed`, `Garbage`, `Head`, `StateCache`, `Store`, `Stored`, `begin`,
`bucket_ids`, `buckets_of`, `load`, `packed_buckets`, `read_bucket`, `read_head`, `save`, `whole`.
"""
