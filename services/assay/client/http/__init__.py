"""The clients over HTTP: standard library only, neither protobuf nor grpcio."""

from assay.client.http.asynchronous import AsyncHttpBatch, AsyncHttpClient
from assay.client.http.client import HttpBatch, HttpClient

__all__ = ["AsyncHttpBatch", "AsyncHttpClient", "HttpBatch", "HttpClient"]
