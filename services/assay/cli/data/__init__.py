"""`assay convert` and `assay check`: published data sets become audited rows."""
