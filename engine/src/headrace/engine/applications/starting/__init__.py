"""Starts an application as a query of Spark.

Others use `DEFAULT_WORKER_MEMORY`, `Input`, `add_keyed_stages`, `settings_of_query`, `start`.
"""
