"""What engines and their callers share: groups, completions, the protocol, receipts."""
