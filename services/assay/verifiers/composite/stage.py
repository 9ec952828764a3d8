"""The stage `composite.run`: each component is judged by its own pipeline, then all are combined.

A component that was not judged is never a zero: the whole is not judged either (the attempt fails
and is repeated), or the component is left out, where the task says that it is optional.
"""

import logging
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from assay.core.errors import InvalidRequest
from assay.core.outcome import Outcome
from assay.core.verdict import (
    TEXT_CHARS_MAX,
    Component,
    Ended,
    Evidence,
    ResourceUse,
    StageVerdict,
)
from assay.sandbox.port import HeldUp
from assay.verifiers.composite.combine import ScoredComponent, combined
from assay.verifiers.composite.definition import (
    ComponentSettings,
    CompositeReference,
    CompositeSettings,
)
from assay.verifiers.composite.isolation import ConfinedChild
from assay.verifiers.local import LocalPipelines
from assay.verifiers.port import HandlerContext, StageDefinition, Work

_log = logging.getLogger(__name__)
_NOTE_CHARS: Final = 300


class InnerPipelines(LocalPipelines):
    """The pipelines of the components, in this process; confined stages in children of it."""

    def __init__(self, context: HandlerContext) -> None:
        super().__init__(
            scratch=context.scratch,
            verifiers=context.verifiers,
            sandbox=context.sandbox,
            artifacts=context.artifacts,
        )
        # Rate limits hold for all workers of the platform, and so do this machine's locks.
        self._context = replace(self._context, permits=context.permits, shared=context.shared)
        self._sandbox = context.sandbox
        self._children: dict[str, ConfinedChild] = {}

    def _verdict(self, stage: StageDefinition, work: Work) -> StageVerdict:
        if not stage.confined:
            return super()._verdict(stage, work)
        name = stage.spec.name
        if name not in self._children:
            self._children[name] = ConfinedChild(stage, self.handler(stage), self._sandbox)
        return self._children[name].run(work)


class CompositeHandler:
    """Judges all components of a response."""

    def __init__(self, context: HandlerContext) -> None:
        self._pipelines = InnerPipelines(context)

    def run(self, works: Sequence[Work]) -> Sequence[StageVerdict]:
        """Judge each response by itself."""
        return [self._one(work) for work in works]

    def close(self) -> None:
        """End what the components started."""
        self._pipelines.close()

    def _one(self, work: Work) -> Ended:
        settings: CompositeSettings = work.settings
        reference: CompositeReference = work.reference
        for name in reference.components:
            if name not in settings.components:
                return _refused(f"reference.components.{name}: there is no such component")
        ended: dict[str, Ended] = {}
        notes: list[str] = []
        for name, component in settings.components.items():
            try:
                found = self._component(work, name, component)
            except InvalidRequest as error:
                return _refused(f"reference.components.{name}: {error.message}")
            except HeldUp:
                raise
            except Exception as error:
                if not component.optional:
                    raise
                _log.warning("component %s was not judged: %r", name, error)
                notes.append(f"{name} was not judged: {type(error).__name__}"[:_NOTE_CHARS])
                continue
            if found.outcome is Outcome.REJECTED_INVALID:
                return _refused(f"reference.components.{name}: {found.evidence.error}")
            if found.reward is None:
                message = f"{name}: {found.outcome.value} {found.evidence.error}"
                if not component.optional:
                    raise RuntimeError(message)
                notes.append(f"was not judged: {message}"[:_NOTE_CHARS])
                continue
            ended[name] = found
        if not ended:
            raise RuntimeError(f"no component was judged: {'; '.join(notes)}")
        return _combined(ended, settings, notes)

    def _component(self, work: Work, name: str, component: ComponentSettings) -> Ended:
        reference: CompositeReference = work.reference
        definition = self._pipelines.pipelines.get(component.pipeline)  # type: ignore[call-overload]
        takes = definition is not None and definition.takes_artifacts
        return self._pipelines.judge_request(
            component.pipeline,
            work.response.encode("utf-8", "surrogateescape"),
            reference.components.get(name, {}),
            settings=component.settings,
            messages=work.messages,
            artifacts=dict(work.artifacts) if takes else {},
            tenant=work.tenant,
        )


def _combined(ended: dict[str, Ended], settings: CompositeSettings, notes: Sequence[str]) -> Ended:
    parts = [
        ScoredComponent(
            name=name,
            value=one.reward or 0.0,
            weight=settings.components[name].weight,
            is_gate=settings.components[name].gate,
        )
        for name, one in ended.items()
    ]
    use = ResourceUse()
    for one in ended.values():
        use = use.plus(one.use)
    verdicts = [f"{name}: {one.evidence.verdict}" for name, one in ended.items()]
    is_limit = all(one.outcome is Outcome.RESOURCE_LIMIT for one in ended.values())
    evidence = Evidence(
        verdict="scored",
        tests_passed=sum(one.evidence.verdict == "pass" for one in ended.values()),
        tests_total=len(settings.components),
        error="; ".join([*verdicts, *notes])[:TEXT_CHARS_MAX],
    )
    return Ended(
        outcome=Outcome.RESOURCE_LIMIT if is_limit else Outcome.SCORED,
        reward=combined(parts, settings.combine, closed=settings.reward_fail),
        evidence=evidence,
        use=use,
        components=tuple(
            Component(name=part.name, value=part.value, weight=part.weight) for part in parts
        ),
        rescorable=all(one.rescorable for one in ended.values()) and not notes,
    )


def _refused(message: str) -> Ended:
    evidence = Evidence(verdict="invalid_reference", error=message[:TEXT_CHARS_MAX])
    return Ended(outcome=Outcome.REJECTED_INVALID, reward=None, evidence=evidence)
