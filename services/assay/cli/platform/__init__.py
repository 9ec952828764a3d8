"""`assay up`, and the platform that other commands start for themselves."""
