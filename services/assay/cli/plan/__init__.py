"""`assay plan`: the current plan, its reasons, and plans under other conditions."""
