"""`assay demo`: a whole reinforcement-learning run on one machine, on the real platform."""
