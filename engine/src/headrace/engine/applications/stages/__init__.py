"""Stages of an application: what a task of Spark computes of the messages of a micro-batch.

Others use `BlockRow`, `COUNTS`, `CallFiles`, `KeyedTask`, `Plan`, `REPORT`, `ROWS`, `Report`, `batches_of`,
`blocks_of`, `divided`, `function_runs`, `keyed_stage_rows`, `keyed_task`, `merged`, `pieces`, `process`,
`record_batch_of`, `record_calls`, `report_of`, `rows_of_ends`, `rows_of_piece`, `source_stage_rows`, `state_classes`,
`stream_end_rows`, `unpack`, `vote`.
"""
