"""The data between steps: values with the messages that they come from."""
