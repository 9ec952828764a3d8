"""Settings of what a service tells about itself."""

from assay.config.branch import Branch


class TelemetrySettings(Branch):
    """Logs, metrics, traces."""

    log_level: str = "info"
    """debug, info, warning, error."""
    log_json: bool = True
    """One JSON object per line; false = human-readable."""
    otlp_endpoint: str = ""
    """OpenTelemetry collector (gRPC); empty = no spans."""
