"""Rewards from Assay in rLLM: an evaluator of episodes.

    pip install .               # where rLLM runs; the service runs where `assay up` does
    assay up                    # on the machine that scores

An episode that the platform could not judge raises: rLLM tries it again, and leaves it out of its
group in the end. docs/integrations/rllm.md
"""

from assay.integrations.trainers.rllm import Evaluator

evaluator = Evaluator("math", reference="ground_truth", deadline_s=120.0)
