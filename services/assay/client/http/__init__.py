"""The client over HTTP: standard library only, neither protobuf nor grpcio."""

from assay.client.http.client import HttpBatch, HttpClient

__all__ = ["HttpBatch", "HttpClient"]
