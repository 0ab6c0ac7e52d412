"""Reads the messages of the past before the streams: `HistoryReader`."""
