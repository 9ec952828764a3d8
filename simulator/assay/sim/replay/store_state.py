"""The store's whole state, from the model and from the keys of a real store, in one form.

`of_model` and `of_keys` give a dictionary by the names of keys (`store/scripts/requests.lua`), of
what does not depend on the clock. A key that belongs to neither list below is an error, so a new
one must be compared or be named with the reason why not.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from assay.core.outcome import Outcome
from assay.core.records import BatchState
from assay.testing.queue_model import QueueModel
from assay.testing.queue_records import ModelBatch, waits

State = dict[str, Any]
Raw = Mapping[str, Any]
"""By key without its prefix: a dictionary, a set, bytes, a list, or pairs of member and score."""

NOT_COMPARED: Final = {
    "ev": "events are hints",
    "pev": "events are hints",
    "fence": "the clock",
    "host": "records as they were put; the members are those of `hosts`",
    "due": "the clock; the members are those of `open`",
    "hinted": "the clock; the members are those of `hints`",
    "gone": "the clock",
    "gp": "an index for the time of sealing; whom it told is part of `g`, and what in the log",
    "tt": "the clock",
    "used": "the order of tasks is compared by the command `tasks`",
    "t": "compared by the commands `get_task` and `history`",
    "h": "compared by the command `history`",
    "hb": "becomes part of `h`",
    "r": "the log is compared by the command `results`",
    "bl": "payload parts, compared in claims",
    "br": "payload parts, compared in claims",
    "p": "payloads, compared in claims",
    "o": "payloads, compared in claims",
    "lc": "the clock; compared by the command `give_back_undelivered`",
    "over#": "the sum of `over`",
    "tasks": "a counter of numbers that no one sees",
    "leads": "a counter, compared by the command `lead`",
    "wt": "by the hour of each clock of its own; the sums are tested in tests/store",
}


def difference(model: QueueModel, raw: Raw) -> Iterator[tuple[str, object, object]]:
    """Each key whose value differs: in the model, and in the store."""
    here, there = of_model(model), of_keys(raw)
    for key in sorted(here.keys() | there.keys()):
        if here.get(key) != there.get(key):
            yield key, here.get(key), there.get(key)


def of_model(model: QueueModel) -> State:
    """The model's state; empty values have no key."""
    state: State = {"seq": model.batch_book.sequence}
    for batch in model.batch_book.batches.values():
        state |= _batch(batch)
    for tenant, held in model.batch_book.held.items():
        state[f"quota:{tenant}"] = _without_zeros(
            {"requests": held.requests, "bytes": held.payload_bytes, "batches": held.batches}
        )
    over: dict[str, list[str]] = {}
    for tenant, name in model.batch_book.over:
        over.setdefault(f"over:{tenant}", []).append(f"{tenant}:{name}")
    state |= over
    state["hosts"] = set(model.hosts._kept)  # noqa: SLF001
    state |= {f"he:{worker}": _without_zeros(of) for worker, of in model.hosts.ended.items()}
    state["open"] = {_uid(b) for b in model.batch_book.batches.values() if not b.over}
    state["hints"] = {f"{tenant}:{task}" for tenant, task in model.task_book._hints}  # noqa: SLF001
    lead = model.lead._now  # noqa: SLF001
    state["lead"] = lead.planner if lead.leads else ""
    state["j"] = set(model.batch_book.jobs)
    state["dlqs"] = {stage for stage, letters in model.batch_book.letters.items() if letters}
    for stage in {
        *model.stages.queues,
        *model.stages.leases,
        *model.batch_book.letters,
        *model.stages.costs,
    }:
        state |= _stage(model, stage)
    return {key: value for key, value in state.items() if value}


def _stage(model: QueueModel, stage: Any) -> State:  # noqa: ANN401 - its name
    queue, letters = model.stages.queues[stage], model.batch_book.letters[stage]
    shares, costs = queue.shares, model.stages.costs[stage]
    state: State = {
        f"s:{stage}": dict(shares.waiting),
        f"sd:{stage}": {t: ahead for t, ahead in shares.debts.items() if ahead > shares.now_us},
        f"sv:{stage}": {"charges": True, "now": shares.now_us} if shares.since is not None else {},
        f"cost:{stage}": _without_zeros({**costs.by_tenant_us, "": costs.all_us}),
        f"l:{stage}": set(model.stages.leases[stage]),
        f"m:{stage}": {"0"} if stage in model.changes.work else set(),
        f"dlq:{stage}": set(letters),
    }
    for tenant, heap in queue._heaps.items():  # noqa: SLF001
        waiting = sorted((key, job.job_id) for key, job in heap if waits(job))
        state[f"q:{stage}:{tenant}"] = [job_id for _, job_id in waiting]
    for job in letters.values():
        state.setdefault(f"dlq:{stage}:{job.batch.spec.tenant}", set()).add(job.job_id)
    return state


def _batch(batch: ModelBatch) -> State:
    uid, spec = _uid(batch), batch.spec
    facts = {
        "tenant": spec.tenant, "batch": spec.batch_id, "task": spec.task_id,
        "first": batch.task.stages[0], "state": batch.state.value,
        "closing": batch.closing.value if batch.closing else "",
        "size": spec.size, "k": spec.group_size, "submitted": len(batch.requests),
        "ended": batch.outcomes.total(), "running": batch.running, "number": batch.number,
        "weight": float(spec.weight), "results_max": batch.results_kept_max,
        "is_ranked": bool(batch.prioritized_ns), "risk": int(batch.at_risk),
        **{f"o:{outcome}": count for outcome, count in batch.outcomes.items() if count},
    }  # fmt: skip
    groups = batch.groups.items()
    return {
        f"b:{uid}": facts,
        f"d:{uid}": set(batch.requests),
        f"gs:{uid}": {name: group.submitted for name, group in groups},
        f"g:{uid}": {n: (g.told, tuple(g.rewards)) for n, g in groups if g.rewards},
        **_whole_groups(uid, batch),
        f"live:{uid}": set(batch.live),
        f"dead:{uid}": set(batch.dead),
        f"pl:{uid}": list(batch.plans),
    }


def _whole_groups(uid: str, batch: ModelBatch) -> State:
    """Groups that one stage judges as a whole (`store/scripts/gathering.lua`)."""
    if batch.task.group_stage is None:
        return {}
    groups = batch.groups.items()
    own = {name: group.own.job_id for name, group in groups if group.own is not None}
    return {
        f"gn:{uid}": _without_zeros({name: group.live for name, group in groups}),
        f"gw:{uid}": {n for n, g in groups if batch.open and g.members and n not in own},
        f"gg:{uid}": {
            n: "judged" if g.judged else own[n] for n, g in groups if g.judged or n in own
        },
        **{f"gm:{uid}:{name}": set(group.members) for name, group in groups},
    }


def _uid(batch: ModelBatch) -> str:
    return f"{batch.spec.tenant}:{batch.spec.batch_id}"


def _without_zeros(counts: Mapping[Any, int]) -> dict[str, int]:
    return {str(name): count for name, count in counts.items() if count}


def of_keys(raw: Raw) -> State:
    """The state of a real store.

    Raises:
        KeyError: a key of no known kind.
    """
    state: State = {"j": set()}
    for key, value in raw.items():
        kind, _, rest = key.partition(":")
        if kind == "j":
            state["j"].add(rest)
        elif kind not in NOT_COMPARED:
            state[key] = _READ[kind](value)
    for key in [key for key in state if key.startswith("sd:")]:
        now_us = state.get(key.replace("sd:", "sv:", 1), {}).get("now", 0)
        state[key] = {t: ahead for t, ahead in state[key].items() if ahead > now_us}
    for key in [key for key in state if key.startswith("gw:")]:  # an index for the time of sealing
        if state[key.replace("gw:", "b:", 1)]["state"] != BatchState.OPEN.value:
            del state[key]
    return {key: value for key, value in state.items() if value}


def _batch_of(fields: Mapping[str, bytes]) -> State:
    text = {name: value.decode() for name, value in fields.items()}
    names = ("size", "k", "submitted", "ended", "running", "number", "results_max", "risk")
    outcomes = {f"o:{outcome}": int(text.get(f"o:{outcome}", "0")) for outcome in Outcome}
    return {
        **{name: text[name] for name in ("tenant", "batch", "task", "first")},
        "state": text["state"], "closing": text.get("closing", ""),
        **{name: int(text.get(name) or 0) for name in names},
        "weight": float(text.get("weight", "1")),
        "is_ranked": text.get("rank", "0") not in {"", "0"},
        **{name: count for name, count in outcomes.items() if count},
    }  # fmt: skip


def _group_of(text: str) -> tuple[bool, tuple[float | None, ...]]:
    ended, told, rewards = text.split(" ", 2)
    given = rewards.split(",") if int(ended) else []
    return told == "1", tuple(float(one) if one else None for one in given)


def _counts(fields: Mapping[str, bytes]) -> dict[str, int]:
    return _without_zeros({name: int(value) for name, value in fields.items()})


def _members(value: Any) -> set[str]:  # noqa: ANN401 - of any type of key
    pairs = value if not isinstance(value, list) else [member for member, _ in value]
    return {str(one) for one in pairs}


def _scores(value: list[tuple[str, float]]) -> dict[str, int]:
    """Virtual times; the store writes -1 for a tenant that waits alone, where none is kept."""
    return {member: max(int(score), 0) for member, score in value}


_READ: Final[dict[str, Any]] = {
    "b": _batch_of,
    "d": _members,
    "gs": _counts,
    "g": lambda value: {name: _group_of(text.decode()) for name, text in value.items()},
    "gn": _counts,
    "gw": _members,
    "gg": lambda value: {name: text.decode() for name, text in value.items()},
    "gm": _members,
    "live": _members,
    "dead": _members,
    "pl": list,
    "quota": _counts,
    "he": _counts,
    "open": _members,
    "hints": _members,
    "lead": bytes.decode,
    "seq": int,
    "q": lambda value: [member for member, _ in value],
    "s": _scores,
    "sd": _scores,
    "sv": lambda value: {"charges": True, "now": int(value.get("now", 0))},
    "cost": _counts,
    "l": _members,
    "m": _members,
    "dlq": _members,
    "dlqs": _members,
    "over": list,
    "closing": _members,
    "hosts": _members,
}
