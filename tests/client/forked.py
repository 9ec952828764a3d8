"""Scores with one client in this process and in processes forked from it, all at the same time.

`forked.py KIND URL`, where KIND is `http`, `grpc`, `grpc-closed` (closed before the fork) or
`scorer`. Prints, as JSON, what each process got, by its name: whether all answers were its own, or
an error.
"""

import json
import multiprocessing
import sys
from collections.abc import Callable
from functools import partial
from typing import Any

from assay.client import Request, SyncClient
from assay.client.http import HttpClient
from assay.core.errors import AssayError
from assay.integrations.sample import Sample
from assay.integrations.scorer import Scorer

NAMES = ("a", "b", "c")
TEXTS = {1.0: "\\boxed{5}", 0.0: "\\boxed{6}"}
REFERENCE = {"answers": ["5"]}
TIMES = 8
HANGS_S = 60


def own_answers(client: Any, name: str) -> bool:
    """Whether each answer has the requests of this process, and their rewards."""
    expected = {f"{name}{n}": float(n % 2) for n in range(4)}
    requests = [
        Request(request_id=one, response=TEXTS[reward], reference=REFERENCE)
        for one, reward in expected.items()
    ]
    found = [client.score(requests, pipeline="math", timeout_s=HANGS_S) for _ in range(TIMES)]
    return all({r.request_id: r.reward for r in one.results} == expected for one in found)


def own_judgements(scorer: Any, name: str) -> bool:
    samples = [Sample(response=text, reference=REFERENCE) for text in (TEXTS[1.0], name)]
    return [one.reward for one in scorer.judge(samples)] == [1.0, 0.0]


def told(check: Callable[[Any, str], bool], client: Any, name: str, answers: Any) -> None:
    try:
        answers.put((name, check(client(), name)))
    except AssayError as error:
        answers.put((name, f"{type(error).__name__}: {error.message}"))


def itself(client: Any) -> Any:
    """The one that all processes share."""
    return client


def main(kind: str, url: str) -> None:
    if kind == "scorer":
        made: Any = Scorer.of("math", url=url)
        check: Callable[[Any, str], bool] = own_judgements
    else:
        made, check = HttpClient(url) if kind == "http" else SyncClient(url), own_answers
    check(made, "before")
    if kind == "grpc-closed":
        made.close()
    client = partial(SyncClient, url) if kind == "grpc-closed" else partial(itself, made)
    forking = multiprocessing.get_context("fork")
    answers = forking.Queue()
    processes = [
        forking.Process(target=told, args=(check, client, name, answers)) for name in NAMES
    ]
    for process in processes:
        process.start()
    told(check, client, "parent", answers)
    found = dict(answers.get(timeout=HANGS_S) for _ in range(len(NAMES) + 1))
    for process in processes:
        process.join(HANGS_S)
    made.close()
    print(json.dumps({"ended": [one.exitcode for one in processes], **found}))


if __name__ == "__main__":
    main(*sys.argv[1:])
