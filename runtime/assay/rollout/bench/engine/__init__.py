"""Benches of the decode engine, with a model. All but `work` need numpy."""
