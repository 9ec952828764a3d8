"""Commands that read or change a running platform: status, dlq, pool, history, doctor."""
