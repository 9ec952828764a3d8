"""`assay score`: rows in, rewards out, resumed by content."""
