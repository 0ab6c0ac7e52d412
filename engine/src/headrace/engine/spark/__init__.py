"""Integration with Spark: sessions, the data source, the query listener in the driver, Python workers."""
