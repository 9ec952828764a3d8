"""One table from errors to statuses, complete, and safe to put into headers."""

import grpc
import pytest

from assay.core.errors import AssayError, InvalidRequest, NotFound, Saturated, Unauthenticated
from assay.edge.status import (
    FIELD_CHARS_MAX,
    INTERNAL,
    MESSAGE_CHARS_MAX,
    STATUS,
    detail_of,
    internal_detail,
)


def _all_errors(base: type[AssayError] = AssayError) -> set[type[AssayError]]:
    below = set(base.__subclasses__())
    return below.union(*(_all_errors(error) for error in below))


def test_every_error_of_the_contract_has_a_status() -> None:
    assert set(STATUS) == {e for e in _all_errors() if e.__module__ == AssayError.__module__}


def test_an_error_that_is_a_kind_of_one_has_its_status() -> None:
    class BatchSaturated(Saturated):
        """As a package that knows more may define one."""

    detail = detail_of(BatchSaturated("full", retry_after_s=1.0))
    assert detail.status == STATUS[Saturated]
    assert detail.reason == Saturated.reason


def test_every_reason_is_a_word_of_its_own() -> None:
    reasons = [error.reason for error in STATUS]
    assert len(set(reasons)) == len(reasons)
    assert AssayError.reason not in reasons


def test_only_what_may_succeed_unchanged_is_a_status_that_proxies_repeat() -> None:
    repeated = {grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.RESOURCE_EXHAUSTED}
    names = {error.reason for error, status in STATUS.items() if status.grpc in repeated}
    assert names == {"dependency_down", "saturated"}
    names = {error.reason for error, status in STATUS.items() if status.http in {429, 503}}
    assert names == {"dependency_down", "saturated"}


def test_a_detail_carries_reason_field_and_delay() -> None:
    detail = detail_of(Saturated("full", field="requests", retry_after_s=1.25))
    assert dict(detail.trailers()) == {
        "reason": "saturated",
        "field": "requests",
        "retry-after-ms": "1250",
    }
    assert detail.headers() == {"Retry-After": "2"}
    assert detail.body() == {
        "error": {
            "reason": "saturated",
            "field": "requests",
            "retry_after_ms": 1250,
            "message": "full",
        }
    }


def test_a_refused_token_says_which_scheme_is_wanted() -> None:
    assert detail_of(Unauthenticated("who?")).headers() == {"WWW-Authenticate": "Bearer"}


def test_what_does_not_apply_is_not_sent() -> None:
    assert detail_of(NotFound("no")).trailers() == (("reason", "not_found"),)


@pytest.mark.parametrize("text", ["reference.größe", "a\nb", "a\x00b", "\ud800", "x" * 10_000])
def test_texts_of_callers_fit_into_headers(text: str) -> None:
    detail = detail_of(InvalidRequest(text, field=text))
    field = dict(detail.trailers())["field"]
    assert field.isascii()
    assert field.isprintable()
    assert len(detail.field) <= FIELD_CHARS_MAX
    assert len(detail.message) <= MESSAGE_CHARS_MAX
    assert detail.message.encode()


def test_a_bug_says_nothing_but_where_to_look() -> None:
    detail = internal_detail("c0ffee")
    assert detail.status == INTERNAL
    assert "c0ffee" in detail.message
