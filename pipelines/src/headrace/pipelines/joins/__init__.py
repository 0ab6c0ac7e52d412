"""Joins of two flows by key and event time."""
