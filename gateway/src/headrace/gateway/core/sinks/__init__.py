"""Sinks: sessions, transactions, votes, and the decisions that follow from commit logs."""
