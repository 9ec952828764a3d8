"""Whether rewards are right: agreement with labels, golds, published suites."""
