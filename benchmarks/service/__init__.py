"""Speed, memory and recovery of the reward service, beside what would be used instead."""
