"""The columns of the source, as Spark types; `_decode.SCHEMA` has the same columns as Arrow types."""

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

_HEADER = StructType([StructField("name", StringType(), False), StructField("value", BinaryType(), True)])

SCHEMA = StructType(
    [
        StructField("key", BinaryType(), True),
        StructField("value", BinaryType(), True),
        StructField("event_time", TimestampType(), True),
        StructField("stream", StringType(), False),
        StructField("sequence", LongType(), False),
        StructField("message_id", StringType(), True),
        StructField("headers", ArrayType(_HEADER, False), False),
    ]
)
