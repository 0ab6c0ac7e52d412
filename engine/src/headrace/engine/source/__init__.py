"""The Spark source: options, planning, fetching."""
