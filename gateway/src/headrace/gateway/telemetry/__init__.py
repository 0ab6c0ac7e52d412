"""What a gateway tells monitoring systems: its metrics, for Prometheus and by OTLP."""
