"""The steps of a pipeline, with and without state."""
