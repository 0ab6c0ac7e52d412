"""Micro-batches in the driver: the votes of sinks, and what decides which states are current.

Others use `commits`.
"""
