"""The Spark sink: options, delivery, dead letters."""
