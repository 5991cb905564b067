"""Which append may write the next rows of a cube: who waits, who takes over, and who finds out too late."""

import asyncio
from copy import replace
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from pixel_gather.core.errors import AppendRunningError, ArrayExistsError, StoreError
from pixel_gather.core.plan.cube_plan import Append, CubePlan
from pixel_gather.core.plan.cube_version import CubeVersion
from pixel_gather.core.stores import FoundCube, StoredObject
from pixel_gather.engine.row_claim import (
    LAPSES_AFTER_S,
    Claim,
    RowClaim,
    check_claimed,
    check_row_claim,
    claim_key,
    claim_rows,
    find_claim,
    must_settle,
    take_claim,
    was_taken_over,
)
from support.fakes import FakeReader, table_of
from support.plans import planned

OURS = RowClaim(claim="00002-ours", digest="o", planned_at=1.5, first_row=3, n_rows=5)
THEIRS = replace(OURS, claim="00002-theirs", digest="t")
VERSION = CubeVersion(
    number=1, committed_at="", n_rows=3, n_sources=3, n_failed=0, n_skipped=0, digest="d", kind="gather"
)


@dataclass
class Cube:
    """A cube in memory, and a clock for its objects."""

    objects: dict[str, StoredObject] = field(default_factory=dict)
    version: int | None = 1
    """Its last commit; None if there is no cube."""

    is_fenced: bool = True
    fences: list[str] = field(default_factory=list)
    now: float = 1_000_000.0
    place: str = "there"
    n_puts: int = 0
    before_put: Any = None

    async def found_among_files(self) -> FoundCube | None:
        """Return it."""
        if self.version is None:
            return None
        versions = (replace(VERSION, number=self.version),)
        return FoundCube(place="there", digest="d", planned_at=0.0, report={}, versions=versions)

    async def read_object(self, key: str) -> StoredObject | None:
        """Return an object."""
        return self.objects.get(key)

    async def put_object(self, key: str, content: bytes, *, replaces: str | None) -> str | None:
        """Put an object, if the present one has this ETag."""
        if self.before_put is not None:
            self.before_put, before = None, self.before_put
            before()
        there = self.objects.get(key)
        if (None if there is None else there.etag) != replaces:
            return None
        self.n_puts += 1
        self.objects[key] = StoredObject(content=content, etag=str(self.n_puts), modified_at=self.now)
        return str(self.n_puts)

    async def fence(self, claim: str, *, version: int) -> bool:
        """Note that others are kept from committing."""
        assert version == 2
        self.fences.append(claim)
        return self.is_fenced

    def hold(self, claim: RowClaim, *, age_s: float) -> None:
        """Have somebody hold the rows since a while."""
        self.n_puts += 1
        self.objects[claim_key(2)] = StoredObject(
            content=claim.to_bytes(), etag=str(self.n_puts), modified_at=self.now - age_s
        )

    @property
    def holder(self) -> RowClaim:
        """Who holds the rows."""
        return RowClaim.from_bytes(self.objects[claim_key(2)].content, version=2)


@pytest.fixture
def cube(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A cube with one version."""
    made = Cube()
    monkeypatch.setattr("pixel_gather.engine.row_claim.time", SimpleNamespace(time=lambda: made.now))
    return made


def take(cube: Any, claim: RowClaim = OURS) -> RowClaim:
    """Claim the second version."""
    return asyncio.run(take_claim(cube, 2, claim))


async def find_own(cube: Any, *, is_whole: bool = True) -> Claim | None:
    """Return our own claim of the second version."""
    return await find_claim(cube, await cube.found_among_files(), "o", is_whole=is_whole)


def test_claim_is_of_a_plan_and_survives_its_file() -> None:
    """All that a continued append needs."""
    append = Append(version=2, first_row=3, chunk_rows=1, versions=())
    plan = replace(
        planned(FakeReader({"a": np.zeros((1, 8, 8), "uint8")}), table_of("a")), append=append, n_rows=5
    )

    claim = RowClaim.of(plan)

    assert claim == RowClaim(
        claim=plan.claim, digest=plan.digest, planned_at=plan.planned_at, first_row=3, n_rows=5
    )
    assert RowClaim.from_bytes(claim.to_bytes(), version=2) == claim
    assert not claim.has_taken_over
    assert claim_key(12) == "versions/00012.claim"


@pytest.mark.parametrize("content", [b"", b'{"claim": "00002', b"[]", b"{}", b"\xc1"], ids=str)
def test_a_damaged_claim_is_named(cube: Any, content: bytes) -> None:
    """Wherever it is read. The error says what to do, and then the rows are free."""
    cube.hold(OURS, age_s=0)
    key = claim_key(2)
    cube.objects[key] = replace(cube.objects[key], content=content)

    for work in (find_own(cube), take_claim(cube, 2, OURS), check_claimed(cube, 2, OURS.claim)):
        with pytest.raises(StoreError, match=f"^{key} is damaged .*: remove this control file and run again"):
            asyncio.run(work)
    del cube.objects[key]
    assert take(cube) == OURS


def test_first_append_takes_the_rows(cube: Any) -> None:
    """Nobody has to be kept out."""
    assert take(cube) == cube.holder == OURS
    assert cube.fences == []


def test_same_request_goes_on_with_its_own_claim(cube: Any) -> None:
    """With the one that was first, however old it is."""
    first = replace(OURS, claim="00002-first", planned_at=1.0)
    cube.hold(first, age_s=10 * LAPSES_AFTER_S)

    assert take(cube) == cube.holder == first
    assert asyncio.run(find_own(cube)) == first


def test_a_claim_is_found_by_its_request_before_the_list_is_known(cube: Any) -> None:
    """Another append at work is no error yet. A cube that is not complete tells whose it is itself."""
    cube.hold(replace(OURS, digest="o of a list"), age_s=0)
    assert asyncio.run(find_own(cube)) == cube.holder
    cube.hold(THEIRS, age_s=0)
    assert asyncio.run(find_own(cube, is_whole=False)) is None

    begun = FoundCube(place="there", digest="o of a list", planned_at=2.0, report=None, versions=())
    own = Claim(claim=begun.claim, digest=begun.digest, planned_at=2.0)
    assert asyncio.run(find_claim(cube, begun, "o")) == own
    assert asyncio.run(find_claim(cube, begun, "t")) is None


def test_a_place_that_was_taken_meanwhile_is_done_if_its_cube_is_the_same(cube: Any) -> None:
    """A twin of this gather has completed it. Any other cube is an error."""
    plan = planned(FakeReader({"a": np.zeros((1, 8, 8), "uint8")}), table_of("a"))
    taken: list[FoundCube | None] = [
        FoundCube(
            place="there", digest="d", planned_at=0.0, report={}, versions=(replace(VERSION, digest=each),)
        )
        for each in (plan.digest, "d")
    ]

    async def create(_: CubePlan) -> CubePlan:
        raise ArrayExistsError("taken")

    async def found() -> FoundCube | None:
        return taken.pop(0)

    cube.create, cube.found, taken[2:] = create, found, [None]

    assert asyncio.run(claim_rows(cube, plan)) is None
    for _ in range(2):
        with pytest.raises(ArrayExistsError, match="taken"):
            asyncio.run(claim_rows(cube, plan))


@pytest.mark.parametrize("age_s", [0.0, LAPSES_AFTER_S - 1])
def test_others_wait_for_an_append_at_work(cube: Any, age_s: float) -> None:
    """They are told how old its last sign is."""
    cube.hold(THEIRS, age_s=age_s)
    says = (
        rf"there: another append is at work\. .* {age_s / 60:.0f} minutes old\. After 30 it counts as "
        r"abandoned\. If it was stopped, run its own command again: that goes on with it$"
    )

    with pytest.raises(AppendRunningError, match=says):
        take(cube)
    with pytest.raises(AppendRunningError, match=says):
        asyncio.run(find_own(cube))
    assert cube.holder == THEIRS


def test_clock_that_is_behind_makes_no_sign_older_than_none(cube: Any) -> None:
    """A store's clock may be ahead of ours."""
    cube.hold(THEIRS, age_s=-600)

    with pytest.raises(AppendRunningError, match="sign of work is 0 minutes old"):
        take(cube)


def test_rows_of_an_abandoned_append_are_taken_over(cube: Any) -> None:
    """Its owner is kept from committing before anything is written."""
    cube.hold(THEIRS, age_s=LAPSES_AFTER_S)

    assert asyncio.run(find_own(cube)) is None
    assert take(cube) == cube.holder == replace(OURS, has_taken_over=True)
    assert cube.fences == ["00002-ours"]


@pytest.mark.parametrize("wish", [{"tries_again": True}, {"settles": True}])
def test_tries_that_were_abandoned_are_settled_first(cube: Any, wish: dict[str, Any]) -> None:
    """They may have left pixels in rows that count as failed. So only who writes all of these takes over."""
    cube.hold(replace(THEIRS, **wish), age_s=LAPSES_AFTER_S)

    with pytest.raises(AppendRunningError, match="run an append first"):
        take(cube)
    settling = replace(OURS, settles=True)
    assert asyncio.run(take_claim(cube, 2, settling)) == replace(settling, has_taken_over=True)


@pytest.mark.parametrize(
    ("claim", "settles"),
    [
        (OURS, False),
        (THEIRS, False),
        (replace(OURS, tries_again=True), False),
        (replace(THEIRS, tries_again=True), True),
        (replace(OURS, settles=True), True),
    ],
)
def test_what_another_append_has_tried_is_settled(cube: Any, claim: RowClaim, *, settles: bool) -> None:
    """So is what this one was to settle when it was stopped."""
    found = asyncio.run(cube.found_among_files())
    assert not asyncio.run(must_settle(cube, found, OURS.digest))
    cube.hold(claim, age_s=LAPSES_AFTER_S)

    assert asyncio.run(must_settle(cube, found, OURS.digest)) is settles


def test_append_that_was_taken_over_goes_on_as_such(cube: Any) -> None:
    """The same request again. It keeps the former owner out, too: the first one may have died before that."""
    cube.hold(replace(OURS, has_taken_over=True), age_s=0)

    assert take(cube).has_taken_over
    assert cube.fences == ["00002-ours"]


def test_former_owner_that_commits_at_this_moment_is_first(cube: Any) -> None:
    """Then the cube has changed, and the append has to be planned anew."""
    cube.hold(THEIRS, age_s=LAPSES_AFTER_S)
    cube.is_fenced = False

    with pytest.raises(AppendRunningError, match="another append is being committed"):
        take(cube)


@pytest.mark.parametrize("version", [None, 2, 0])
def test_rows_behind_another_version_are_not_taken(cube: Any, version: int | None) -> None:
    """Another append was committed between the look and the claim, or the cube was removed."""
    cube.version = version

    with pytest.raises(AppendRunningError, match="there: another append was committed meanwhile"):
        take(cube)


def test_rows_that_others_commit_while_they_are_claimed_are_not_taken(cube: Any) -> None:
    """The claim is of no use then: the plan begins behind fewer rows than the cube has."""
    cube.before_put = lambda: setattr(cube, "version", 2)

    with pytest.raises(AppendRunningError, match="there: another append was committed meanwhile"):
        take(cube)


def test_claim_of_the_same_request_that_comes_first_is_continued(cube: Any) -> None:
    """It was put between the look and the claim."""
    first = replace(OURS, claim="00002-first")
    cube.before_put = lambda: cube.hold(first, age_s=0)

    assert take(cube) == first


def test_claim_that_vanishes_is_put_again(cube: Any) -> None:
    """It was there when the claim was put, and was removed before it was read."""
    cube.hold(THEIRS, age_s=0)
    read = cube.read_object

    async def removed(key: str) -> StoredObject | None:
        del cube.objects[key]
        cube.read_object = read
        return None

    cube.read_object = removed

    assert take(cube) == OURS


def check(cube: Any, claim: str = OURS.claim) -> None:
    """Check whether the second version is still somebody's."""
    asyncio.run(check_claimed(cube, 2, claim))


@pytest.mark.parametrize(("age_s", "is_renewed"), [(299, False), (300, False), (301, True)])
def test_sign_of_work_renews_a_claim_of_five_minutes(cube: Any, age_s: float, *, is_renewed: bool) -> None:
    """Younger ones need no request."""
    cube.hold(OURS, age_s=age_s)

    check(cube)

    assert cube.holder == OURS
    assert cube.objects[claim_key(2)].modified_at == cube.now - (0 if is_renewed else age_s)


def test_owner_finds_out_that_another_append_has_taken_over(cube: Any) -> None:
    """Or that its claim is gone."""
    cube.hold(THEIRS, age_s=0)
    with pytest.raises(ArrayExistsError, match="no sign of work for 30 minutes: run this one again"):
        check(cube)

    cube.objects.clear()
    with pytest.raises(ArrayExistsError, match="another append has taken over"):
        check(cube)


def test_workers_check_the_claim_of_their_plan(cube: Any) -> None:
    """They compare its version."""
    append = Append(version=2, first_row=3, chunk_rows=1, versions=())
    plan = replace(planned(FakeReader({"a": np.zeros((1, 8, 8), "uint8")}), table_of("a")), append=append)
    cube.hold(RowClaim.of(plan), age_s=0)

    asyncio.run(check_row_claim(cube, plan))
    cube.hold(THEIRS, age_s=0)
    with pytest.raises(ArrayExistsError):
        asyncio.run(check_row_claim(cube, plan))


@pytest.mark.parametrize("has_taken_over", [False, True])
def test_a_claim_tells_whether_it_was_taken_over(cube: Any, *, has_taken_over: bool) -> None:
    """Without a claim, nothing was."""
    append = Append(version=2, first_row=3, chunk_rows=1, versions=())
    plan = replace(planned(FakeReader({"a": np.zeros((1, 8, 8), "uint8")}), table_of("a")), append=append)
    assert not asyncio.run(was_taken_over(cube, plan))
    cube.hold(replace(OURS, has_taken_over=has_taken_over), age_s=0)

    assert asyncio.run(was_taken_over(cube, plan)) is has_taken_over
