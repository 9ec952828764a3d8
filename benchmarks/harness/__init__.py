"""What every measurement uses: a platform of its own, requests of known reward, the report."""
