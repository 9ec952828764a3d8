"""Installs the baseline of `assay.integrations.trainers.verl` when imported.

    VERL_USE_EXTERNAL_MODULES=assay.integrations.trainers.verl_baseline

is verl's own way to load it in every process, before its trainers take `compute_advantage`.
"""

from assay.integrations.trainers.verl import install_baseline

install_baseline()
