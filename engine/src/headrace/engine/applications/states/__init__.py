"""States of buckets: in the memory of a worker, on its disk, and in files of the checkpoint.

Others use `STATE_CACHE`, `BucketFiles`, `Changed`, `Garbage`, `Head`, `StateCache`, `Store`, `begin`,
`bucket_ids`, `buckets_of`, `find`, `load`, `packed_buckets`, `read_bucket`, `read_head`, `save`, `whole`.
"""
