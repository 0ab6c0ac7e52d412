"""The cost of a message in the SDK of each language, and the speed of each SDK."""
