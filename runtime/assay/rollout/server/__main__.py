"""`python -m assay.rollout.server MODEL`."""

from assay.rollout.server.command import main

if __name__ == "__main__":
    main()
