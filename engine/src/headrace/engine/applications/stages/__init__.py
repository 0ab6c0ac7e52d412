"""Stages of an application: what a task of Spark computes of the messages of a micro-batch.

Others use `COUNTS`, `REPORT`, `ROWS`, `BlockRow`, `CallFiles`, `KeyedTask`, `Plan`, `Report`, `batches_of`,
`blocks_of`, `divided`, `function_runs`, `keyed_task`, `merged`, `pieces`, `process`, `record_batch_of`, `record_calls`,
`report_of`, `rows_of_ends`, `rows_of_piece`, `source_stage_rows`, `state_classes`, `stream_end_rows`, `unpack`, `vote`.
"""
