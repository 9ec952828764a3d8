"""Rewards from Assay in NeMo-RL: two lines at the top of a recipe's script.

    assay up                     # on the machine that scores
    # CLONE: this repository
    ASSAY_URL=HOST:8470 uv run --with CLONE python run_grpo_assay.py --config ...

    # run_grpo_assay.py
    import nemo_rl_environment   # this module
    from examples.run_grpo import main
    main()

with `env: {assay: {pipeline: math, deadline_s: 60}}` and `data.env_name: assay` in the recipe.
docs/integrations/nemo.md
"""

from assay.integrations.environments import nemo_rl

nemo_rl.register("assay")
nemo_rl.install_baseline()
