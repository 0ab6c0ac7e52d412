"""What a message costs in the SDK of each language, and how fast it is."""
