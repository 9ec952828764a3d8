# ruff: noqa: E501 - the old text has to stand as it is in its file
"""What every adapter promises a trainer, taken out one line at a time: do its tests see?

A failure of the platform becomes a number, the step's deadline is dropped, results change their
order, each response is a batch of its own, the unjudged vote in a baseline. Each names its place
by a text that occurs exactly once in its file, and the tests that have to fail.
"""

from typing import Final

from tests.mutation.verdicts import VerdictMutant

ADAPTERS: Final = "services/assay/integrations"
ENVIRONMENTS: Final = f"{ADAPTERS}/environments"
TRAINERS: Final = f"{ADAPTERS}/trainers"


def _of(
    kind: str, file: str, tests: tuple[str, ...], *changes: tuple[str, str]
) -> list[VerdictMutant]:
    paths = tuple(f"tests/integrations/{name}.py" for name in tests)
    return [VerdictMutant(kind, file, old, new, paths) for old, new in changes]


ADAPTER_MUTANTS: Final = (
    *_of(
        "judgement",
        f"{ADAPTERS}/judgement.py",
        ("test_judgement",),
        (
            "    if not result.outcome.carries_reward:\n        return unscored(outcome, result.evidence.error)\n",
            "",
        ),
        ("if reward is None or not math.isfinite(reward):", "if reward is None:"),
        ('missing = unscored(UNREACHABLE, "no result arrived")', "missing = Judgement(reward=0.0)"),
        ("for request_id in request_ids]", "for request_id in sorted(request_ids)]"),
        (
            "        group = advantages([rewards[index] for index in indices], estimator)",
            "        group = advantages([rewards[index] or 0.0 for index in indices], estimator)",
        ),
    ),
    *_of(
        "step",
        f"{ADAPTERS}/step.py",
        ("test_scorer",),
        (
            "return unscored(REJECTED_SATURATED if self._saturated else UNREACHABLE, reason)",
            "return Judgement(reward=0.0)",
        ),
        (
            "            for task in work:  # what the cancelled batch says of its requests is no news\n                task.cancel()\n            await self._cancel()\n",
            "",
        ),
        ("unscored(REJECTED_INVALID, error.message)", "Judgement(reward=0.0)"),
        (
            "if isinstance(error, CALLERS_MISTAKE) and not self._proven():",
            "if isinstance(error, CALLERS_MISTAKE):",
        ),
        (
            "                    if isinstance(error, NotFound | FailedPrecondition | Conflict):\n                        batch_id = uuid.uuid4().hex\n",
            "",
        ),
        ("                group_id=sample.group_id,\n", ""),
        ("        if due or (failed and not self._said):", "        if False:"),
        ("REJECTED_SATURATED if self._saturated else UNREACHABLE", "UNREACHABLE"),
    ),
    *_of(
        "scorer",
        f"{ADAPTERS}/scorer.py",
        ("test_scorer",),
        ("batch_id=batch_id, deadline_s=scoring.deadline_s", "batch_id=batch_id"),
        ("        if step is None or step.closed:", "        if True:"),
        (
            "            judged = await asyncio.gather(*futures)",
            "            judged = (await asyncio.gather(*futures))[::-1]",
        ),
        ('deadline_s=number("ASSAY_DEADLINE_S", 0) or None', "deadline_s=None"),
        ("self._engine is None or self._process != os.getpid()", "self._engine is None"),
        (
            "        if not proven and all(one.outcome == REJECTED_INVALID for one in judged):",
            "        if False:",
        ),
        (
            "        if step.count >= (self._scoring.step_size or STEP_SAMPLES_MAX):",
            "        if step.count >= STEP_SAMPLES_MAX:",
        ),
        ("self._refused >= REFUSED_MAX and not self._proven", "False"),
        ("self._refused >= REFUSED_MAX and not self._proven", "self._refused >= REFUSED_MAX"),
    ),
    *_of(
        "TRL",
        f"{TRAINERS}/trl.py",
        ("test_trl",),
        (
            "        return [one.reward for one in judged]",
            "        return [one.reward or 0.0 for one in judged]",
        ),
        ("        None if reward is None else reward + weight", "        (reward or 0.0) + weight"),
        ("        return judging.result().reward", "        return judging.result().reward or 0.0"),
        ("zip(at, judged, strict=True)", "zip(at, reversed(judged), strict=True)"),
        (
            "Scorer.of(scoring, **options)\n        self.reference = reference\n        self.also",
            "Scorer.of(scoring)\n        self.reference = reference\n        self.also",
        ),
        (
            "Scorer.of(scoring, **options)\n        self.reference = reference\n\n    def __call__",
            "Scorer.of(scoring)\n        self.reference = reference\n\n    def __call__",
        ),
        (
            "        self._judging = self._scorer.start_one(sample)",
            "        self._judging = Scorer(self._scorer.scoring).start_one(sample)",
        ),
        ("                group_id=group_of(prompts[place]),\n", ""),
    ),
    *_of(
        "TRL's rollouts",
        f"{TRAINERS}/trl_rollouts.py",
        ("test_trl_rollouts",),
        ('"env_mask": [[0] if bad', '"env_mask": [[1] if bad'),
        ("        FAILED: failed,", "        FAILED: [False] * len(failed),"),
        ("self._pushed_step != trainer.state.global_step:", "self._pushed_step is None:"),
        (
            "        for prompt in prompts\n        for one in",
            "        for prompt in reversed(prompts)\n        for one in",
        ),
        ("        self._calls += 1\n", ""),
    ),
    *_of(
        "verl",
        f"{TRAINERS}/verl.py",
        ("test_verl",),
        ('        "infra_failed": float(not judged.scored),', '        "infra_failed": 0.0,'),
        ("means.get(group_id, UNSCORED) if is_failed else score", "score"),
        (
            "        if not is_failed:\n            judged.setdefault",
            "        if True:\n            judged.setdefault",
        ),
        (
            "keys(await shared_scorer(options).judge_one_async(sample))",
            'keys(await shared_scorer({**options, "deadline_s": None}).judge_one_async(sample))',
        ),
        (
            "keys(await shared_scorer(options).judge_one_async(sample))",
            "keys((await shared_scorer(options).judge_async([sample]))[0])",
        ),
        (
            '            data.non_tensor_batch["infra_failed"] = np.array(failed, dtype=object)\n',
            "            pass\n",
        ),
        ('[bool(info.get("infra_failed")) for info in infos]', "[False for _ in infos]"),
        ('    if getattr(step, "marks_unscored", False):\n        return\n', ""),
        ("        last = outputs[-1] if", "        last = outputs[0] if"),
        ("        if last.reward_score is not None:\n            return outputs\n", ""),
        ("response_ids[tools[-1] + 1 if tools else 0 :]", "response_ids"),
        (
            'group_id="" if group is None else group_of([str(row.get("data_source")), str(group)]),',
            "group_id=group_of(response),",
        ),
    ),
    *_of(
        "OpenRLHF",
        f"{TRAINERS}/openrlhf.py",
        ("test_call_shapes",),
        ("[math.nan if one.reward is None", "[UNSCORED if one.reward is None"),
        ("[float(not one.scored) for one in found]", "[0.0 for one in found]"),
        ("        return [scorer.judge_one(samples[0])]", "        return scorer.judge(samples)"),
        ("    return scorer.judge(samples)\n", "    return scorer.judge(samples)[::-1]\n"),
        ("    scorer = shared_scorer()", '    scorer = shared_scorer({"deadline_s": None})'),
        ("query.removeprefix(prompt)", "query"),
    ),
    *_of(
        "AReaL",
        f"{TRAINERS}/areal.py",
        ("test_areal",),
        ("            raise _UnscoredError(judged.cause)", "            return 0.0"),
        ("Scorer.of(scoring, **(options or {}))", "Scorer.of(scoring)"),
        (
            "        judged = await self.scorer.judge_one_async(\n            Sample(\n                response=completion,\n                reference=reference_of(row[self.reference]),\n                group_id=group_of(prompt),\n            )\n        )",
            "        judged = (await self.scorer.judge_async([\n            Sample(\n                response=completion,\n                reference=reference_of(row[self.reference]),\n                group_id=group_of(prompt),\n            )\n        ]))[0]",
        ),
        ('len(trajectory["rewards"]) == group_size', 'len(trajectory["rewards"]) > 0'),
    ),
    *_of(
        "rLLM",
        f"{TRAINERS}/rllm.py",
        ("test_verifiers", "test_call_shapes"),
        ("            raise UnscoredError(judged.cause)", "            return 0.0"),
        ("Scorer.of(scoring, **options)", "Scorer.of(scoring)"),
        ("trajectory.steps[-1]", "trajectory.steps[0]"),
    ),
    *_of(
        "ROLL",
        f"{TRAINERS}/roll.py",
        ("test_roll",),
        (
            "[math.nan if one.reward is None else one.reward for one in judged]",
            "[one.reward or 0.0 for one in judged]",
        ),
        (
            "[math.nan if one.reward is None else one.reward for one in judged]",
            "[math.nan if one.reward is None else one.reward for one in reversed(judged)]",
        ),
        (
            "scorer.judge(samples) if len(samples) > 1 else [scorer.judge_one(samples[0])]",
            "[scorer.judge([one])[0] for one in samples]",
        ),
        (
            "        judged = [one for one in group if not math.isnan(one)]",
            "        judged = [0.0 if math.isnan(one) else one for one in group]",
        ),
        ("[UNSCORED if math.isnan(one) else one for one in rewards]", "list(rewards)"),
        ('and not getattr(original, "fills_unscored", False)', ""),
    ),
    *_of(
        "slime",
        f"{TRAINERS}/slime.py",
        ("test_slime",),
        ("    sample.remove_sample = True\n", ""),
        ("    sample.status = type(sample.status).FAILED\n", ""),
        (
            "        None if MARK in (sample.metadata or {}) or math.isnan(reward) else reward",
            "        None if math.isnan(reward) else reward",
        ),
        (
            "        None if MARK in (sample.metadata or {}) or math.isnan(reward) else reward",
            "        None if MARK in (sample.metadata or {}) else reward",
        ),
        (
            "list(await asyncio.gather(*map(_reward, sample)))",
            "list(await asyncio.gather(*map(_reward, sample)))[::-1]",
        ),
        (
            "    judged = await shared_scorer().judge_one_async(",
            '    judged = await shared_scorer({"deadline_s": None}).judge_one_async(',
        ),
    ),
    *_of(
        "Agent Lightning",
        f"{TRAINERS}/agent_lightning.py",
        ("test_agent_lightning",),
        ("    if judged.reward is None:\n        return _missing(judged.cause)\n", ""),
        (
            '{"value": None, "source": "fallback", "reason": reason}',
            '{"value": 0.0, "source": "fallback", "reason": reason}',
        ),
        (
            "shared_scorer(self.assay_scoring)",
            'shared_scorer({**self.assay_scoring, "deadline_s": None})',
        ),
        ("        own = events.get(attempt, [])", '        own = events.get("a0", [])'),
        ("        if any(event.event_type == REWARD for event in own):\n            return\n", ""),
        (
            '        group = row.get("data_id") or row.get("instance_id") or row',
            "        group = rollout.rollout_id",
        ),
    ),
    *_of(
        "Tinker",
        f"{ENVIRONMENTS}/tinker.py",
        ("test_tinker",),
        (
            "            raise UnscoredError(judged.cause)\n        self._reward = judged.reward",
            "            judged = None\n        self._reward = judged.reward if judged else 0.0",
        ),
        ("shared_scorer(scoring)", 'shared_scorer({**scoring, "deadline_s": None})'),
        ("shared_scorer(scoring)", 'shared_scorer({**scoring, "step_size": 1})'),
        ("        self._reward = judged.reward\n", ""),
    ),
    *_of(
        "SkyRL",
        f"{ENVIRONMENTS}/skyrl.py",
        ("test_skyrl",),
        ("UNSCORED if judged.reward is None else judged.reward", "judged.reward or 0.0"),
        ("{INFRA_FAILED: float(not judged.scored)}", "{INFRA_FAILED: 0.0}"),
        (
            "[None if math.isnan(score) else score for score in scores]",
            "[0.0 if math.isnan(score) else score for score in scores]",
        ),
        (
            "shared_scorer(dict(env_config.items()))",
            'shared_scorer({**env_config, "deadline_s": None})',
        ),
        (
            "shared_scorer(dict(env_config.items()))",
            'shared_scorer({**env_config, "step_size": 1})',
        ),
    ),
    *_of(
        "verifiers",
        f"{ENVIRONMENTS}/verifiers.py",
        ("test_verifiers",),
        ("            raise UnscoredError(judged.cause)", "            return 0.0"),
        (
            "shared_scorer(self.assay_scoring)",
            'shared_scorer({**self.assay_scoring, "deadline_s": None})',
        ),
        (
            "shared_scorer(self.assay_scoring)",
            'shared_scorer({**self.assay_scoring, "step_size": 1})',
        ),
        ("assay._vf_weight = 1.0", "assay._vf_weight = 0.0"),
    ),
    *_of(
        "OpenEnv",
        f"{ENVIRONMENTS}/openenv.py",
        ("test_call_shapes",),
        (
            '{"reward": judged.reward, "metadata": metadata}',
            '{"reward": judged.reward or 0.0, "metadata": metadata}',
        ),
        ('        metadata["error"] = judged.cause\n', "        pass\n"),
        (
            "        scorer = shared_scorer(self.assay_scoring)\n        return told(await",
            '        scorer = shared_scorer({**self.assay_scoring, "deadline_s": None})\n        return told(await',
        ),
        (
            "        scorer = shared_scorer(self.assay_scoring)\n        return told(await",
            '        scorer = shared_scorer({**self.assay_scoring, "step_size": 1})\n        return told(await',
        ),
        (
            "        scorer = shared_scorer(self.assay_scoring)\n        return told(scorer",
            '        scorer = shared_scorer({**self.assay_scoring, "step_size": 1})\n        return told(scorer',
        ),
    ),
    *_of(
        "NeMo-Gym",
        f"{ENVIRONMENTS}/nemo_gym.py",
        ("test_nemo",),
        (
            '        "reward": UNSCORED,\n        "mask_sample": True,\n',
            '        "reward": UNSCORED,\n        "mask_sample": False,\n',
        ),
        ('{**instance, "mask_sample": True}', "instance"),
        ('        "_ng_failure_class": outcome,\n', ""),
        ("outcome == Outcome.REJECTED_INVALID.value", "False"),
        (
            "shared_scorer(self.assay_scoring)",
            'shared_scorer({**self.assay_scoring, "deadline_s": None})',
        ),
        (
            "shared_scorer(self.assay_scoring)",
            'shared_scorer({**self.assay_scoring, "step_size": 1})',
        ),
    ),
    *_of(
        "NeMo-RL",
        f"{ENVIRONMENTS}/nemo_rl.py",
        ("test_nemo",),
        (
            "            raise UnscoredError(one.cause)",
            "            return 0.0",
        ),
        ("class UnscoredError(ConnectionError):", "class UnscoredError(Exception):"),
        ("means.get(group, statistics.fmean(every))", "UNSCORED"),
        ("means.get(group, statistics.fmean(every))", "means.get(group, UNSCORED)"),
        ("return math.nan if one.reward is None", "return 0.0 if one.reward is None"),
        (
            "        self._judged = self._scorer.judge(samples)\n",
            "        self._judged = [self._scorer.judge([one])[0] for one in samples]\n",
        ),
        (
            "        self._judged = self._scorer.judge(samples)\n",
            "        self._judged = self._scorer.judge(samples)[::-1]\n",
        ),
        (
            "        self._scorer = shared_scorer(options)",
            '        self._scorer = shared_scorer({**options, "deadline_s": None})',
        ),
    ),
    *_of(
        "NeMo-RL's rollouts",
        f"{ENVIRONMENTS}/nemo_rl_rollouts.py",
        ("test_nemo",),
        ('metrics[at]["total_reward"] = means[group]', 'metrics[at]["total_reward"] = 0.0'),
        ("statistics.fmean(part or judged or [0.0])", "statistics.fmean(part or [0.0])"),
        ("{**row, mark: True} if isinstance(row, dict) else row", "row"),
        ("                row.pop(mark, None)", "                pass"),
    ),
)
