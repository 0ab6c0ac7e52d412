"""What a release publishes, built by one command, and tried where nothing of a checkout is: `make dist` and `make dist-trial`."""
