"""What the LaTeX parser has learnt about its grammar, kept on disk between starts.

ANTLR decides between the alternatives of a rule by a DFA per decision, which it builds as it parses
("Adaptive LL(*) Parsing", Parr et al., OOPSLA 2014). Built from `pairs` it is half of the time that
`math.verify` needs to start; the result is 350 states.

Invariant: a parser with these DFAs decides as one that built them itself. A form that this module
does not know (a predicate with an action, another runtime) is not kept.
"""

import hashlib
import marshal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final, NamedTuple

from antlr4.atn.ATNConfig import ATNConfig
from antlr4.atn.ATNConfigSet import ATNConfigSet
from antlr4.atn.ATNSimulator import ATNSimulator
from antlr4.atn.SemanticContext import PrecedencePredicate, SemanticContext
from antlr4.dfa.DFAState import DFAState
from antlr4.PredictionContext import (
    ArrayPredictionContext,
    PredictionContext,
    SingletonPredictionContext,
)
from latex2sympy2_extended.antlr_parser import PSParser, antlr_version

from assay.config.computed import read, write

FILE: Final = "math.prediction"
RUNTIME: Final = "4.13."
"""Of ANTLR; what others keep in a state is not known here."""
_NOWHERE: Final = -1
_ERROR: Final = -2
_NO_PREDICATE: Final = -1


class Learnt(NamedTuple):
    """The DFAs of a parser as plain values."""

    contexts: tuple[Any, ...]
    """Each with its parents' indexes and its return states; parents stand before their children."""
    decisions: tuple[Any, ...]
    """For each decision with a DFA: its number, its start, the starts by precedence, its states."""


class UnknownForm(Exception):
    """The DFAs hold something that `Learnt` cannot express."""


@contextmanager
def kept(folder: Path | None) -> Iterator[bool]:
    """Begin with what an earlier process has learnt; keep what the block adds to it.

    A parser that has learnt something by itself already keeps that, and nothing is written.

    Yields whether an earlier process has learnt something.

    Args:
        folder: see `assay.config.computed`; `None`: nothing is kept.
    """
    if folder is None or states() or not antlr_version.startswith(RUNTIME):
        yield False
        return
    _restore(folder / FILE)
    known = states()
    yield known > 0
    if states() > known:
        with suppress(UnknownForm):
            write(folder / FILE, _key(), marshal.dumps(tuple(extract())))


def _restore(path: Path) -> None:
    if (content := read(path, _key())) is not None:
        install(Learnt(*marshal.loads(content)))  # noqa: S302 - our own file, see `computed`


def states() -> int:
    """How many states the DFAs of the parser have."""
    return sum(len(dfa.states) for dfa in PSParser.decisionsToDFA)


def _key() -> bytes:
    grammar = hashlib.sha256(Path(sys.modules[PSParser.__module__].__file__ or "").read_bytes())
    return f"{sys.version} antlr {antlr_version} {grammar.hexdigest()}".encode()


def extract() -> Learnt:
    """The parser's DFAs as plain values.

    Raises:
        UnknownForm: a state has a predicate that is more than a precedence.
    """
    contexts = _Contexts()
    decisions = tuple(
        (
            dfa.decision,
            _NOWHERE if dfa.s0 is None or dfa.precedenceDfa else dfa.s0.stateNumber,
            _targets(dfa.s0.edges) if dfa.precedenceDfa else (),
            tuple(_state(state, number, contexts) for number, state in enumerate(dfa.states)),
        )
        for dfa in PSParser.decisionsToDFA
        if dfa.states
    )
    return Learnt(tuple(contexts.plain), decisions)


class _Contexts:
    """Numbers contexts, each after its parents."""

    def __init__(self) -> None:
        self.plain: list[tuple[bool, tuple[int, ...], tuple[int, ...]]] = []
        self._numbers = {id(PredictionContext.EMPTY): 0}
        self._kept: list[Any] = []

    def number(self, context: Any) -> int:  # noqa: ANN401 - ANTLR has no types
        if context is None:
            return _NOWHERE
        known = self._numbers.get(id(context))
        if known is not None:
            return known
        of = range(len(context))
        parents = tuple(self.number(context.getParent(i)) for i in of)
        returns = tuple(context.getReturnState(i) for i in of)
        self.plain.append((isinstance(context, ArrayPredictionContext), parents, returns))
        self._kept.append(context)  # its id stays its own
        self._numbers[id(context)] = len(self.plain)
        return len(self.plain)


def _targets(edges: Sequence[Any] | None) -> tuple[tuple[int, int], ...]:
    """Of each edge that is known: its index, and the number of the state that it leads to."""
    return tuple(
        (index, _ERROR if target is ATNSimulator.ERROR else target.stateNumber)
        for index, target in enumerate(edges or ())
        if target is not None
    )


def _state(
    state: Any,  # noqa: ANN401 - ANTLR has no types
    number: int,
    contexts: _Contexts,
) -> tuple[Any, ...]:
    held = state.configs
    plain = state.predicates is None and state.lexerActionExecutor is None and held.readonly
    if not plain or state.stateNumber != number:
        raise UnknownForm(f"state {number}: {state}")
    return (
        (state.isAcceptState, state.prediction, state.requiresFullContext),
        _NOWHERE if state.edges is None else len(state.edges),
        _targets(state.edges),
        (held.fullCtx, held.uniqueAlt, held.hasSemanticContext, held.dipsIntoOuterContext),
        None if held.conflictingAlts is None else tuple(sorted(held.conflictingAlts)),
        tuple(
            (
                config.state.stateNumber,
                config.alt,
                contexts.number(config.context),
                _precedence(config.semanticContext),
                config.reachesIntoOuterContext,
                config.precedenceFilterSuppressed,
            )
            for config in held.configs
        ),
    )


def _precedence(predicate: Any) -> int:  # noqa: ANN401 - ANTLR has no types
    if predicate is SemanticContext.NONE:
        return _NO_PREDICATE
    if type(predicate) is not PrecedencePredicate:
        raise UnknownForm(type(predicate).__name__)
    return int(predicate.precedence)


def install(learnt: Learnt) -> None:
    """Give the parser these DFAs in place of its own."""
    contexts = list(_made_contexts(learnt.contexts))
    made = [
        (number, start, starts, _made_states(states, contexts))
        for number, start, starts, states in learnt.decisions
    ]
    # From here on nothing can fail: the parser has all of it, or what it had.
    _forget()
    PSParser.sharedContextCache.cache.update((context, context) for context in contexts[1:])
    for number, start, starts, states in made:
        dfa = PSParser.decisionsToDFA[number]
        dfa.states.update((state, state) for state in states)
        if dfa.precedenceDfa:
            for precedence, target in starts:
                dfa.setPrecedenceStartState(precedence, states[target])
        else:
            dfa.s0 = None if start == _NOWHERE else states[start]


def _forget() -> None:
    """Also contexts: those of deep texts cannot be compared with others."""
    PSParser.sharedContextCache.cache.clear()
    for dfa in PSParser.decisionsToDFA:
        dfa.states.clear()
        if dfa.precedenceDfa:
            dfa.s0.edges = []
        else:
            dfa.s0 = None


def _made_contexts(plain: Sequence[Any]) -> Iterator[Any]:
    made: list[Any] = [PredictionContext.EMPTY]
    for is_array, parents, returns in plain:
        of = [None if parent == _NOWHERE else made[parent] for parent in parents]
        if is_array:
            made.append(ArrayPredictionContext(of, list(returns)))
        else:
            made.append(SingletonPredictionContext(of[0], returns[0]))
    return iter(made)


def _made_states(plain: Sequence[Any], contexts: Sequence[Any]) -> list[Any]:
    made = [
        _made_state(number, configs, contexts, sets, conflicting, kind)
        for number, (kind, _, _, sets, conflicting, configs) in enumerate(plain)
    ]
    for state, (_, width, targets, *_) in zip(made, plain, strict=True):
        if width != _NOWHERE:
            state.edges = [None] * width
            for index, target in targets:
                state.edges[index] = ATNSimulator.ERROR if target == _ERROR else made[target]
    return made


def _made_state(
    number: int,
    configs: Sequence[Any],
    contexts: Sequence[Any],
    sets: tuple[bool, int, bool, bool],
    conflicting: tuple[int, ...] | None,
    kind: tuple[bool, int, bool],
) -> Any:  # noqa: ANN401 - ANTLR has no types
    held = ATNConfigSet()
    held.fullCtx, held.uniqueAlt, held.hasSemanticContext, held.dipsIntoOuterContext = sets
    held.conflictingAlts = None if conflicting is None else set(conflicting)
    held.configs = [_made_config(config, contexts) for config in configs]
    held.setReadonly(readonly=True)
    state = DFAState(number, held)
    state.isAcceptState, state.prediction, state.requiresFullContext = kind
    return state


def _made_config(plain: tuple[int, int, int, int, int, bool], contexts: Sequence[Any]) -> Any:  # noqa: ANN401 - ANTLR has no types
    state, alt, context, precedence, outer, suppressed = plain
    predicate = SemanticContext.NONE if precedence < 0 else PrecedencePredicate(precedence)
    found = None if context == _NOWHERE else contexts[context]
    config = ATNConfig(PSParser.atn.states[state], alt, found, predicate)
    config.reachesIntoOuterContext, config.precedenceFilterSuppressed = outer, suppressed
    return config
