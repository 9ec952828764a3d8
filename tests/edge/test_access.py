"""Tokens rotate, expire and are removed without a restart; what they did is in the audit log."""

from __future__ import annotations

import asyncio
import hashlib
import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest
from pydantic import SecretStr, ValidationError
from structlog.testing import capture_logs

from assay.config.access import (
    AuditSettings,
    OperatorSettings,
    Role,
    TenantSettings,
    TlsBranch,
    TokenSettings,
)
from assay.config.settings import RewardSettings, Settings
from assay.core.errors import AssayError, PermissionDenied, Saturated, Unauthenticated
from assay.core.ids import TenantId
from assay.edge import calls
from assay.edge.access import rules, watched
from assay.edge.access.audit import Audit, open_audit
from assay.edge.auth import MetricsReader, Operator, OwnLimits, Tenants
from assay.edge.calls import Arrival, CallGuard
from assay.edge.clock import Clock
from assay.edge.door import Door, DoorLimit, DoorLimits, Kind, RateLimit
from assay.edge.tracing import NoTracer

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

RED = TenantId("red")


class Hands(Clock):
    """A clock that stands until it is moved."""

    def __init__(self) -> None:
        self.s = 1_800_000_000

    def now_ns(self) -> int:
        return self.s * 10**9

    def monotonic_ns(self) -> int:
        return self.s * 10**9


def sha(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()


def write(file: Path, content: Mapping[str, Any] | str) -> None:
    """Replace a file as a secret's mount does: all at once."""
    fresh = file.with_suffix(".new")
    fresh.write_text(content if isinstance(content, str) else json.dumps(content))
    fresh.replace(file)


@pytest.fixture
def clock() -> Hands:
    return Hands()


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Of one tenant with one token."""
    path = tmp_path / "tenants.json"
    write(path, {"red": {"token_sha256": sha("old")}})
    return path


@pytest.fixture
def tenants(file: Path, clock: Hands) -> Tenants:
    return Tenants.of(RewardSettings(tenants_file=file), clock)


def who(callers: Tenants, token: str) -> str:
    """The tenant of a token, or why there is none."""
    try:
        return callers.authenticate(f"Bearer {token}").tenant_id
    except Unauthenticated as error:
        return error.message.removeprefix("authorization: ")


def test_tokens_rotate_without_a_restart_or_a_gap(
    tenants: Tenants, file: Path, clock: Hands
) -> None:
    assert (who(tenants, "old"), who(tenants, "new")) == ("red", "no tenant has this token")
    both = {"token_sha256": sha("old"), "tokens": [{"sha256": sha("new")}], "requests_open_max": 7}
    write(file, {"red": both, "blue": {"token_sha256": sha("blu")}})
    assert who(tenants, "new") == "no tenant has this token", "it looks once per second"
    clock.s += 2
    assert [who(tenants, token) for token in ("old", "new", "blu")] == ["red", "red", "blue"]
    assert tenants.authenticate("Bearer new").quota.requests_open_max == 7
    assert tenants.count == 2
    write(file, {"red": {"tokens": [{"sha256": sha("new")}]}})
    clock.s += 2
    assert [who(tenants, token) for token in ("old", "new", "blu")] == [
        "no tenant has this token",
        "red",
        "no tenant has this token",
    ]
    write(file, {})
    clock.s += 2
    assert tenants.ask_for_token
    assert who(tenants, "new") == "no tenant has this token", "an empty file admits no one"


@pytest.mark.parametrize(
    "content",
    [
        "",
        "[]",
        '{"red": {"token_sha256": "' + "z" * 64 + '"}}',
        '{"red": {"token_sha256": "s3cret"}}',
        '{"red": {"tokens": [{"sha256": "' + "0" * 64 + '", "roles": ["root"]}]}}',
        '{"red": {"tokens": [{"sha256": "' + "0" * 64 + '", "expires": "2027-01-01T00:00:00"}]}}',
        '{"red": {}}',
        '{"red": {"token_sha256": "'
        + sha("x")
        + '"}, "blue": {"token_sha256": "'
        + sha("x")
        + '"}}',
        '{"red": {"certificate_names": ["a"]}, "blue": {"certificate_names": ["a"]}}',
        '{"a b": {"token_sha256": "' + sha("x") + '"}}',
    ],
)
def test_a_wrong_file_changes_nothing_and_is_logged_once_without_its_content(
    tenants: Tenants, file: Path, clock: Hands, content: str
) -> None:
    write(file, content)
    with capture_logs() as logs:
        for _ in range(3):
            clock.s += 2
            assert who(tenants, "old") == "red"
    [line] = logs
    assert line["event"] == "access_file_refused"
    assert "reward.tenants_file" in line["why"]
    assert "s3cret" not in line["why"]
    with pytest.raises(ValueError, match=r"reward\.tenants_file"):
        Tenants.of(RewardSettings(tenants_file=file), clock)


def test_a_file_that_is_gone_or_too_large_changes_nothing(
    tenants: Tenants, file: Path, clock: Hands, monkeypatch: pytest.MonkeyPatch
) -> None:
    file.unlink()
    clock.s += 2
    assert who(tenants, "old") == "red"
    monkeypatch.setattr(watched, "FILE_BYTES_MAX", 100)
    write(file, " " * 101)
    clock.s += 2
    assert who(tenants, "old") == "red"


def test_a_token_ends_at_its_instant(clock: Hands) -> None:
    ends = datetime.fromtimestamp(clock.s + 10, UTC)
    token = TokenSettings(sha256=SecretStr(sha("old")), expires=ends)
    tenants = Tenants({"red": TenantSettings(tokens=(token,))}, clock=clock)
    clock.s += 9
    assert who(tenants, "old") == "red"
    clock.s += 1
    assert who(tenants, "old") == "this token has expired"


def test_a_certificate_stands_for_its_tenant_and_never_for_another() -> None:
    tenants = Tenants(
        {
            "red": TenantSettings(
                token_sha256=SecretStr(sha("r3d")), certificate_names=frozenset({"red.example"})
            ),
            "blue": TenantSettings(certificate_names=frozenset({"blue.example", "b2"})),
        }
    )
    assert tenants.authenticate("", ["x", "red.example"]).tenant_id == "red"
    assert tenants.authenticate("", ["b2", "blue.example"]).tenant_id == "blue"
    assert tenants.authenticate("Bearer r3d", ["red.example"]).tenant_id == "red"
    assert tenants.authenticate("Bearer r3d", ["proxy.example"]).tenant_id == "red"
    for authorization, names, why in (
        ("Bearer r3d", ["b2"], "another tenant"),
        ("", ["b2", "red.example"], "several tenants"),
        ("", ["x"], "expected `Bearer"),
        ("Bearer no", ["b2"], "no tenant"),
    ):
        with pytest.raises(Unauthenticated, match=why):
            tenants.authenticate(authorization, names)


def test_the_operators_tokens_have_roles_and_the_own_one_rotates(
    tmp_path: Path, clock: Hands
) -> None:
    file = tmp_path / "token"
    file.write_text("0ne\n")
    ends = datetime.fromtimestamp(clock.s + 3, UTC)
    more = (
        TokenSettings(
            sha256=SecretStr(sha("scrape")), roles=frozenset({Role.READ}), name="scraper"
        ),
        TokenSettings(
            sha256=SecretStr(sha("resize")), roles=frozenset({Role.WORKER}), expires=ends
        ),
    )
    operator = Operator(OperatorSettings(token_file=file, tokens=more), clock)
    assert operator.authenticate("Bearer 0ne").roles == frozenset(Role)
    assert operator.authenticate("Bearer scrape").shown == "scraper"
    reader = MetricsReader(operator, Tenants({}))
    reader.admit("Bearer scrape")
    with pytest.raises(PermissionDenied, match="`operate` or `read`"):
        reader.admit("Bearer resize")
    file.write_text("tw0\n")
    clock.s += 3
    assert dict(operator.metadata) == {"authorization": "Bearer tw0"}
    for old in ("0ne", "resize", ""):
        with pytest.raises(Unauthenticated):
            operator.authenticate(f"Bearer {old}")
    only = Operator(OperatorSettings(tokens=more), clock)
    assert only.ask_for_token
    assert not only.metadata
    with pytest.raises(ValueError, match=r"operator\.tokens\[0\]\.sha256"):
        Operator(OperatorSettings(tokens=(TokenSettings(sha256=SecretStr("x")),)))


def test_settings_that_contradict_each_other_are_refused(tmp_path: Path) -> None:
    tenant = {"red": TenantSettings(token_sha256=SecretStr(sha("x")))}
    with pytest.raises(ValidationError, match="set only one"):
        RewardSettings(tenants=tenant, tenants_file=tmp_path / "x")
    with pytest.raises(ValidationError, match="needs tls_certificate"):
        TlsBranch(tls_client_ca=tmp_path / "ca.pem")


# -- calls ---------------------------------------------------------------------------------------
def guarded(callers: Tenants, clock: Clock, audit: Audit | None = None) -> CallGuard:
    limits = DoorLimits(calls_max=10, streams_max=10, bytes_max=10)
    return CallGuard(
        callers=callers,
        door=Door(limits, count=lambda: callers.count),
        clock=clock,
        tracer=NoTracer(),
        on_call=lambda *_: None,
        audit=audit,
    )


def arrival(token: str, method: str = "Submit", **fields: Any) -> Arrival:
    given = {"rule": rules.rule_of_operation(method), **fields}
    return Arrival(method=method, authorization=f"Bearer {token}", **given)


async def test_a_stream_ends_soon_after_its_token_was_removed(
    tenants: Tenants, file: Path, clock: Hands, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(calls, "CHECK_AGAIN_S", 0.001)
    guard = guarded(tenants, clock)
    known = arrival("old", "StreamResults", kind=Kind.STREAM)
    inside = asyncio.Event()

    async def stream() -> None:
        with guard.call(known) as call:
            await call.admit()
            async with guard.while_permitted(known):
                inside.set()
                await asyncio.Event().wait()
        assert call.error is not None
        raise AssayError(call.error.reason)

    streaming = asyncio.create_task(stream())
    await inside.wait()
    write(file, {"red": {"tokens": [{"sha256": sha("old"), "roles": ["submit"]}]}})
    clock.s += 2
    with pytest.raises(AssayError, match="permission_denied"):
        async with asyncio.timeout(60):
            await streaming
    assert guard.door.held(Kind.STREAM) == 0


async def test_a_stream_that_times_out_by_itself_says_so(tenants: Tenants, clock: Hands) -> None:
    guard = guarded(tenants, clock)
    with pytest.raises(TimeoutError):
        async with guard.while_permitted(arrival("old")):
            raise TimeoutError


async def _called(guard: CallGuard, known: Arrival, **about: str) -> str:
    with guard.call(known) as call:
        await call.admit()
        calls.note_about(**about)
    return call.error.reason if call.error else "ok"


async def test_what_changes_something_and_who_is_refused_is_audited(
    tenants: Tenants, clock: Hands, tmp_path: Path
) -> None:
    audit = Audit(tmp_path / "audit", "reward", AuditSettings(), clock)
    guard = guarded(tenants, clock, audit)
    assert await _called(guard, arrival("old", "SealBatch", peer="a:1"), batch_id="b" * 999) == "ok"
    for unseen in ("GetBatch", "StreamResults", "Submit"):
        assert await _called(guard, arrival("old", unseen)) == "ok"
    assert await _called(guard, arrival("wr0ng", "GetBatch")) == "unauthenticated"
    assert await _called(guard, arrival("old", rule=rules.OPERATE)) == "permission_denied"
    audit.payload_calls = True
    assert await _called(guard, arrival("old", "Score")) == "ok"

    def lines(kind: str) -> list[dict[str, Any]]:
        text = (tmp_path / "audit" / f"reward.{kind}.jsonl").read_text()
        assert "old" not in text
        assert "wr0ng" not in text
        return [json.loads(line) for line in text.splitlines()]

    seal, score = lines("calls")
    assert seal == {
        "at": datetime.fromtimestamp(clock.s, UTC).isoformat(timespec="milliseconds"),
        "tenant": "red",
        "shown": sha("old")[:8],
        "call": "SealBatch",
        "call_id": seal["call_id"],
        "peer": "a:1",
        "result": "ok",
        "batch_id": "b" * 256,
    }
    assert score["call"] == "Score"
    stranger, denied = lines("refused")
    assert (stranger["tenant"], stranger["result"]) == ("", "unauthenticated")
    assert (denied["tenant"], denied["result"]) == ("red", "permission_denied")


def test_audit_files_are_bounded_and_a_lost_line_ends_no_call(clock: Hands, tmp_path: Path) -> None:
    settings = AuditSettings(file_bytes_max=4096, files_max=3)
    audit = Audit(tmp_path, "s", settings, clock)
    for number in range(300):
        audit.record({"n": number}, refused=False)
    kept = sorted(tmp_path.glob("s.calls.jsonl*"))
    assert [path.name for path in kept] == [f"s.calls.jsonl{end}" for end in ("", ".1", ".2")]
    assert all(path.stat().st_size <= 4096 for path in kept)
    numbers = [
        json.loads(line)["n"] for path in reversed(kept) for line in path.read_text().splitlines()
    ]
    assert numbers == list(range(numbers[0], 300)), "the newest are kept, in order"
    again = Audit(tmp_path, "s", settings, clock)
    again.record({"n": 300}, refused=False)
    assert kept[0].read_text().splitlines()[-1].endswith('"n": 300}')
    again._done._closing()
    with capture_logs() as logs:
        again.record({"n": 301}, refused=False)
        again.record({"n": 302}, refused=False)
    assert [line["event"] for line in logs] == ["audit_line_lost"]


def test_there_is_an_audit_log_where_callers_need_a_token(tmp_path: Path) -> None:
    settings = Settings(data_dir=tmp_path)
    assert open_audit(settings, "s", asks=False) is None
    assert open_audit(settings, "s", asks=True) is not None
    assert (tmp_path / "audit").stat().st_mode & 0o077 == 0
    chosen = settings.model_copy(update={"audit": AuditSettings(folder=tmp_path / "own")})
    assert open_audit(chosen, "s", asks=False) is not None


# -- limits of one tenant ------------------------------------------------------------------------
def test_a_tenants_own_limits_stand_in_for_its_share() -> None:
    door = Door(DoorLimits(calls_max=100, streams_max=100, bytes_max=1, tenants=2))
    door.know(RED, OwnLimits(calls_max=1, streams_max=90))
    with door.slot(RED, Kind.CALL), pytest.raises(Saturated, match="limit of 1 calls"):
        door._slots[Kind.CALL].take(RED, own_max=1)
    with door.slot(RED, Kind.CALL), pytest.raises(Saturated), door.slot(RED, Kind.CALL):
        pass
    held = [door.slot(RED, Kind.STREAM) for _ in range(75)]  # half is its share; 25 are the other's
    for slot in held:
        slot.__enter__()
    with pytest.raises(Saturated, match="the limit of streams"), door.slot(RED, Kind.STREAM):
        pass
    for slot in held:
        slot.__exit__(None, None, None)


def test_a_tenants_own_rate_stands_in_for_the_common_one() -> None:
    pace = RateLimit(1_000.0)
    waits = [pace.wait_s(RED, 1, 10.0, own_per_s=2.0) for _ in range(5)]
    assert waits == [0.0, 0.0, 0.0, 0.5, 1.0], "a second's worth at once, then its rate"


def test_totals_are_divided_anew_when_tenants_come_and_go() -> None:
    limit = DoorLimit("things", total=12, tenants=2, share=0.5)
    limit.take(RED, 6)
    limit.divide(6)
    limit.take(TenantId("blue"), 2)
    with pytest.raises(Saturated):
        limit.take(TenantId("green"), 2)
    limit.take(TenantId("green"), 1)
    for tenant, amount in (("red", 6), ("blue", 2), ("green", 1)):
        limit.give_back(TenantId(tenant), amount)
    assert limit.held == 0
    count = 1
    door = Door(DoorLimits(calls_max=10, streams_max=1, bytes_max=1), count=lambda: count)
    with door.slot(RED, Kind.CALL):
        count = 2
        door.know(RED, OwnLimits())
        for _ in range(4):
            door._slots[Kind.CALL].take(RED)
        with pytest.raises(Saturated, match="this tenant's limit of 5 calls"):
            door._slots[Kind.CALL].take(RED)
