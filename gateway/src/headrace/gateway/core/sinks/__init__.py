"""Sinks: sessions, transactions, votes, and what commit logs decide about them."""
