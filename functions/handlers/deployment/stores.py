"""Connects the steps to a deployment's stores. The connections are kept for the life of the function."""

from collections.abc import Coroutine
from copy import replace
from datetime import UTC, datetime
from functools import cached_property, lru_cache, partial
from typing import Any, Final, cast

from msgspec import Struct

from handlers.deployment.settings import Settings
from handlers.deployment.temporary_files import take_folder
from pixel_gather.core.errors import HaltedError
from pixel_gather.core.estimate.assumptions import use_measured
from pixel_gather.core.halt_marker import HALTED_KEY, cancelled_key, why_halted
from pixel_gather.io.cube.control_files import ObjectControlStore
from pixel_gather.io.cube.zarr_cube import ZarrCube
from pixel_gather.io.event_loop import open_runner
from pixel_gather.io.store.concurrency import AdaptiveLimiter
from pixel_gather.io.store.limiter.ledgers import HostBudgets, ObjectLedger
from pixel_gather.io.store.object_store import Objects, open_place
from pixel_gather.io.store.signing import Sign, Signing
from pixel_gather.io.store.store_settings import StoreSettings

_LONGEST_JITTER_S: Final = 2.0
"""Up to 500 workers start within seconds. A token lives for 45 minutes or more."""

_PACE: Final = "pace/"
"""Where the control bucket has the ledgers of hosts, and the register of the gathers that run."""


class _RankingResult(Struct, frozen=True):
    table: str


class Deployment:
    """The stores of one deployment, and the event loop that all work runs on."""

    def __init__(self, settings: Settings) -> None:
        take_folder()
        self.settings = settings
        use_measured(settings.measured)
        own = StoreSettings(endpoint=settings.endpoint, stays_on_host=True)
        self._own = own
        self._control = open_place(f"s3://{settings.control_bucket}", own)
        self.budgets = HostBudgets(settings.requests_per_s, open_store=lambda: (self._control, _PACE))
        self.limiter = AdaptiveLimiter(most=settings.concurrency, budgets=self.budgets)
        self.objects = Objects(own, by_root=_settings_by_root(settings), pace=self.limiter)
        self._signed: dict[str, Objects] = {}
        self.summaries = ObjectControlStore(self._control, "")
        self._markers = ObjectControlStore(self._control, "", may_list=False)
        self._runner = open_runner()
        self._opened = lru_cache(maxsize=1)(lambda href: ZarrCube(open_place(href, own), href))

    def signed_objects(self, sign: str) -> Objects:
        """Return the reader of sources that one kind of signing is for; ``none`` for no signing.

        It is kept with its token: a plan reads a list, chips, an index and headers by it.
        """
        if sign == "none":
            return self.objects
        if sign not in self._signed:
            secret = self.settings.earthdata_secret
            read_token = None if secret is None else partial(_read_secret, secret)
            kind = cast("Sign", sign)  # the request's model has checked it
            signing = Signing(kind=kind, read_token=read_token, longest_jitter_s=_LONGEST_JITTER_S)
            self._signed[sign] = self.objects.signed(signing)
        return self._signed[sign]

    def run[T](self, work: Coroutine[Any, Any, T]) -> T:
        """Run on the event loop that connections, limits and child processes belong to."""
        return self._runner.run(work)

    def cube(self, gather: str, *, may_list: bool = True) -> ZarrCube:
        """Return the cube of a gather. Its connections are kept until another cube is opened.

        Args:
            gather: The cube's name, or ``name/claim``.
            may_list: Whether this function has the right to list its objects.
        """
        return replace(self._opened(self.settings.cube_href(cube_name(gather))), may_list=may_list)

    @property
    def archives(self) -> ZarrCube:
        """The folder of all cubes, for the files of their archives."""
        place = f"s3://{self.settings.array_bucket}/{self.settings.output_prefix}".rstrip("/")
        return ZarrCube(open_place(place, self._own), place)

    def control(self, gather: str, *, may_list: bool = True) -> ObjectControlStore:
        """Return the store of a gather's control files.

        Args:
            gather: The cube's name for the files of all its plans, or ``name/claim`` for those of one.
            may_list: Whether this function has the right to list the files.
        """
        return ObjectControlStore(self._control, f"gathers/{gather}/", may_list=may_list)

    @property
    def register(self) -> ObjectLedger:
        """The register of the gathers that run."""
        return ObjectLedger(self._control, f"{_PACE}gathers.json")

    async def is_cancelled(self, execution: str) -> bool:
        """Tell whether somebody has cancelled an execution."""
        return await self._markers.get(cancelled_key(execution)) is not None

    async def why_halted(self) -> str | None:
        """Return why nothing begins now, as the month's budget is spent; None if there is no reason."""
        return why_halted(await self._markers.get(HALTED_KEY), now=datetime.now(UTC))

    async def check_not_halted(self) -> None:
        """Raise an error if nothing begins now."""
        if (why := await self.why_halted()) is not None:
            raise HaltedError(why)

    @cached_property
    def results(self) -> ObjectControlStore:
        """Tables, and kept statistics of rankings, in the bucket of cubes."""
        place = f"s3://{self.settings.array_bucket}"
        return ObjectControlStore(open_place(place, self._own), self.settings.tables_prefix, may_list=False)

    def table_files(self, name: str, *, may_list: bool = True) -> ObjectControlStore:
        """Return the store of a table's control files."""
        return ObjectControlStore(self._control, f"tables/{name}/", may_list=may_list)

    async def find_result[Result](self, name: str, *, type: type[Result]) -> tuple[Result, str] | None:  # noqa: A002
        """Return a table's result as ``type``, and its entity tag; None if there is no such table.

        Raises:
            StoreError: The result is damaged.
        """
        from pixel_gather.tables.table_receipt import RESULT_KEY, read_result  # noqa: PLC0415 # for tables alone

        if (found := await self.results.below(name).get_with_etag(RESULT_KEY)) is None:
            return None
        content, etag = found
        return read_result(content, place=self.settings.table_href(name), type=type), etag

    async def ranking_answer(self, name: str) -> bytes | None:
        """Return the answer of a large ranking, which lies beside its table; None if somebody removed it."""
        if (found := await self.find_result(name, type=_RankingResult)) is None:
            return None
        table = found[0].table.removeprefix(self.settings.table_href(name))
        return await self.results.get(f"{name}{table.rpartition('/')[0]}/answer.json")

    def close(self) -> None:
        """End the event loop. Lambda never calls this."""
        self._runner.close()


def _read_secret(name: str) -> str:
    from pixel_gather.io.aws.secrets import secret_text  # noqa: PLC0415 # boto3 costs 0.3 s

    return secret_text(name)


def cube_name(gather: str) -> str:
    """Return the cube's name of ``name/claim``, as the state machine passes a gather on."""
    return gather.partition("/")[0]


def _settings_by_root(settings: Settings) -> dict[str, StoreSettings]:
    return {
        f"s3://{each.name}": StoreSettings(
            endpoint=settings.endpoint,
            region=each.region,
            requester_pays=each.requester_pays,
            unsigned=each.unsigned,
        )
        for each in settings.source_buckets
    }
