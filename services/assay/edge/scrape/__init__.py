"""What Prometheus reads: the metrics of this machine's processes as text."""
