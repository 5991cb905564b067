"""The receipt of a gather: what was asked, by which versions, and digests of what was stored.

`pixel_gather.verify` compares a cube with its receipt. The receipt itself covers:

- the pixels of each shard, by a digest;
- ``rows.parquet``, ``headers.parquet``, ``sources.parquet`` and ``quicklooks.npz``, by size and SHA-256;
- the receipt's own values, by a checksum.

All else is covered by what these hold, or by a checksum of its own:

- The group's ``zarr.json``, and the former ones in ``versions/``, have a checksum in the gather's record.
- ``zarr.json`` of an array is the same as in the group's consolidated metadata.
- Coordinates have the values of ``rows.parquet``. Their chunks have the checksum of zstd, also those of the
  arrays that the table does not hold: ``x``, ``y``, ``spatial_ref`` and ``measurement``.
- ``view.html``, ``report.html``, ``report.txt`` and ``report.json`` have a checksum of their own.

Some things are not covered, as no reader needs them: the files ``versions/NNNNN.claim``, bytes in a continued
shard that its index does not name, and the pixels of rows that could not be read. A later version may be
trying these again.
"""

import functools
import math
import platform
from collections.abc import Iterator, Mapping, Sequence
from copy import replace
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from itertools import product
from typing import Any, Final, Self

import msgspec
import xxhash
from msgspec import Struct, to_builtins

from pixel_gather.core.model.outcome import Outcome
from pixel_gather.core.plan.cube_plan import BANDS, CubePlan
from pixel_gather.core.plan.cut_tasks import ShardTask
from pixel_gather.core.results.own_checksum import has_its_checksum, with_checksum
from pixel_gather.core.results.report import Report
from pixel_gather.version import __version__

FORMAT: Final = 1
"""This number grows when a program that knows only the former format could misread a receipt."""

_PACKAGES: Final = ("imagecodecs", "numpy", "obstore")
_REQUEST_DIGITS: Final = 16
"""Digits of the request's digest in a gather's digest. Those of the list follow; see `gather_digest`."""


class WrittenFile(Struct, frozen=True, kw_only=True):
    """A file that finish wrote beside the cube's arrays."""

    key: str
    nbytes: int
    sha256: str


class ReceiptFile(Struct, frozen=True, kw_only=True):
    """Size and content of a file beside the arrays."""

    nbytes: int
    sha256: str


class AppendReceipt(Struct, frozen=True, kw_only=True):
    """What one append has added to a cube."""

    version: int
    """Number of the version that it made."""

    digest: str
    """Digest of its request and its list."""

    list_digest: str
    planned_at: str
    """Start of the append: ISO 8601, UTC."""

    request: dict[str, Any]
    versions: dict[str, str]
    """As in `Receipt`."""

    rows: tuple[int, int]
    """Rows [start, stop) of the cube that it added."""

    n_sources: int
    n_skipped: int
    """Sources of its list that the cube had already."""

    found_list: str | None
    """Key of the list that its search found; None if nothing was searched."""

    n_retried: int = 0
    """Sources of earlier rows that it has tried again, because they could not be read before."""


class Receipt(Struct, frozen=True, kw_only=True):
    """What a gather stored. It becomes the cube's ``receipt.json``."""

    format: int
    digest: str
    """Digest of the request and the list's content."""

    list_digest: str
    """First sixteen digits of the list's digest."""

    planned_at: str
    """Start of the gather: ISO 8601, UTC."""

    request: dict[str, Any]
    versions: dict[str, str]
    """Versions of Python and of the packages that wrote the cube, by name."""

    dims: tuple[str, str, str]
    shape: tuple[int, int, int]
    """(row, y, x) of every measurement."""

    shard: tuple[int, int, int]
    """(row, y, x) of a full shard."""

    dtypes: dict[str, str]
    """NumPy's name of each measurement's dtype, by the measurement's name."""

    codec: str
    is_lossless: bool
    """Whether the stored pixels are those of the files. If not, the digests are of the pixels before
    compression.
    """

    pixels: str
    """The report's digest of all pixels."""

    shards: dict[str, str | None]
    """Digest of each shard's pixels by its key in the cube; see `shard_digests`."""

    files: dict[str, ReceiptFile]
    """The files that finish wrote, by their key."""

    sources: str | None
    """Key of the file with the href, ETag and size of every source that was read. None without it."""

    appends: tuple[AppendReceipt, ...] = ()
    """What was added since. The request, the list and the versions above are those of the first gather. All
    else is of the whole cube.
    """

    version: int = 1
    """Number of the cube's version that this is the receipt of."""

    padded: dict[str, int] = {}
    """Rows that count in a shard, by its key, where rows of padding follow. Only copies of joined cubes have
    such shards.
    """

    images_per_chip: int | None = None
    """Of a cube of chips: rows of each chip. Its arrays have an axis of chips and one of images instead of
    one of rows. None for other cubes.
    """

    band_axis: str | None = None
    """Name of the array that has all measurements along an axis, the second one. None if each has its own."""

    @property
    def arrays(self) -> dict[str, tuple[str, ...]]:
        """The measurements in each array, by its name."""
        if self.band_axis is not None:
            return {self.band_axis: tuple(self.dtypes)}
        return {name: (name,) for name in self.dtypes}

    @property
    def shard_grid(self) -> tuple[int, ...]:
        """Number of shards along each axis."""
        return tuple(-(-whole // part) for whole, part in zip(self.shape, self.shard, strict=True))

    def shards_of(self, name: str) -> Iterator[tuple[str, tuple[slice, ...]]]:
        """Yield the key of each shard of an array, and its place along rows, y and x."""
        for place in product(*map(range, self.shard_grid)):
            edges = zip(place, self.shard, self.shape, strict=True)
            is_folded = self.images_per_chip is not None or self.band_axis is not None
            at = (place[0], 0, *place[1:]) if is_folded else place
            key = f"{name}/c/{'/'.join(map(str, at))}"
            yield key, tuple(slice(at * side, min((at + 1) * side, stop)) for at, side, stop in edges)

    @property
    def has_all_shards(self) -> bool:
        """Whether every shard of every array is named, and no other."""
        n = math.prod(self.shard_grid) * len(self.arrays)
        return n == len(self.shards) and all(
            key in self.shards for name in self.arrays for key, _ in self.shards_of(name)
        )

    def to_bytes(self) -> bytes:
        """Return the content of ``receipt.json``. Its last value is a checksum."""
        told = with_checksum(to_builtins(self))
        return msgspec.json.format(msgspec.json.encode(told), indent=2) + b"\n"

    @classmethod
    def from_bytes(cls, content: bytes) -> Self:
        """Return the receipt that `to_bytes` has written.

        Raises:
            ValueError: It is damaged.
        """
        found = msgspec.json.decode(content, type=cls)
        if not has_its_checksum(msgspec.json.decode(content)):
            raise ValueError("its checksum is missing, or that of another content")
        return found


def receipt_of(
    plan: CubePlan,
    report: Report,
    *,
    shards: Mapping[str, str | None],
    files: Sequence[WrittenFile],
    sources: str | None,
    found_list: str | None = None,
    earlier: Receipt | None = None,
) -> Receipt:
    """Return the receipt of a cube with the rows of a plan.

    Args:
        plan: The cube.
        report: Report of the whole cube.
        shards: `shard_digests` of all shards that were written.
        files: What finish has written beside the arrays.
        sources: Key of the one of ``files`` that has the sources.
        found_list: Key of the one of ``files`` that a search found.
        earlier: The cube's receipt before; None for a new cube.
    """
    written = {each.key: ReceiptFile(nbytes=each.nbytes, sha256=each.sha256) for each in files}
    if earlier is not None:
        return _grown_receipt(plan, report, earlier, shards=shards, written=written, found_list=found_list)
    return Receipt(
        format=FORMAT,
        digest=plan.digest,
        list_digest=plan.digest[_REQUEST_DIGITS:],
        planned_at=_moment(plan),
        request=plan.request,
        versions=running_versions(),
        dims=(plan.dim, "y", "x"),
        shape=plan.shape,
        shard=plan.layout.shard,
        dtypes={each.name: each.dtype for each in plan.measurements},
        codec=plan.codec,
        is_lossless=not plan.zfp_tolerance,
        pixels=report.digest,
        shards=dict(shards),
        files=written,
        sources=sources,
        images_per_chip=None if plan.chips is None else plan.chips.n_images,
        band_axis=BANDS if plan.bands_are_axis else None,
    )


def _grown_receipt(
    plan: CubePlan,
    report: Report,
    earlier: Receipt,
    *,
    shards: Mapping[str, str | None],
    written: dict[str, ReceiptFile],
    found_list: str | None,
) -> Receipt:
    """Return the receipt of a cube to which a plan has added rows."""
    n_shards, _ = plan.layout.n_shards(plan.shape)
    there = {key: told for key, told in earlier.shards.items() if _place(key)[0] < n_shards}
    added = AppendReceipt(
        version=plan.append.version,
        digest=plan.digest,
        list_digest=plan.digest[_REQUEST_DIGITS:],
        planned_at=_moment(plan),
        request=plan.request,
        versions=running_versions(),
        rows=(plan.first_row, plan.n_rows),
        n_sources=plan.n_sources,
        n_skipped=plan.append.n_skipped,
        found_list=found_list,
        n_retried=plan.append.n_again,
    )
    return replace(
        earlier,
        shape=plan.shape,
        pixels=report.digest,
        shards=_in_order(plan, there | dict(shards)),
        files=earlier.files | written,
        appends=(*(each for each in earlier.appends if each.version < added.version), added),
        version=added.version,
    )


def _in_order(plan: CubePlan, shards: Mapping[str, str | None]) -> dict[str, str | None]:
    """Return the shards in the order of rows, as a gather of all rows would have them."""
    names = [each.name for each in plan.arrays]

    def place(key: str) -> tuple[int, ...]:
        row, *_, strip, _ = _place(key)
        return row, strip, names.index(key.partition("/c/")[0])

    return {key: shards[key] for key in sorted(shards, key=place)}


def _place(key: str) -> list[int]:
    """Return a shard's position in the grid of shards of its array."""
    return [int(each) for each in key.partition("/c/")[2].split("/")]


def shard_digests(
    plan: CubePlan,
    task: ShardTask,
    rows: Sequence[Sequence[Outcome]] | None,
    *,
    before: Sequence[Sequence[str]] = (),
) -> dict[str, str | None]:
    """Return the digest of each of a task's shards, by its key in the cube.

    It is `digest_of_rows` of the digests that the worker computed. A lost shard has None.

    Args:
        plan: Plan of the gather or the append.
        task: The task.
        rows: The outcomes of its new rows; None if the shard was lost.
        before: The digests of each measurement of the rows that the shard had before an append.
    """
    place, strip, _ = task.shard_key(plan)
    added = None if rows is None else [[each.digest for one in row for each in one.bands] for row in rows]
    return digests_of_shard(plan, place, None if added is None else [*before, *added], strip=strip)


def digests_of_shard(
    plan: CubePlan, place: int, rows: Sequence[Sequence[str]] | None, *, strip: int = 0
) -> dict[str, str | None]:
    """Return the digest of the shards of all arrays at one place, by their keys in the cube.

    Args:
        plan: The cube.
        place: Along the rows.
        rows: The digests of each measurement of all rows of the shard; None if it was lost.
        strip: Place along y.
    """
    keys = plan.object_keys(place, strip)
    if rows is None or not all(map(all, rows)):  # rows that were lost have no digest
        return dict.fromkeys(keys)
    if plan.bands_are_axis:
        return {keys[0]: digest_of_rows([digest for row in rows for digest in row])}
    return {key: digest_of_rows(digests) for key, digests in zip(keys, zip(*rows, strict=True), strict=True)}


def digest_of_rows(digests: Sequence[str]) -> str:
    """Return a shard's digest: XXH3-128 of the text of its rows' digests, in order.

    A row's digest is `pixel_gather.core.read.measure_rows.digest_of` its pixels in this shard. Along an
    axis of bands, each row has a digest for each band.
    """
    return xxhash.xxh3_128_hexdigest("".join(digests).encode())


def _moment(plan: CubePlan) -> str:
    return datetime.fromtimestamp(plan.planned_at, UTC).isoformat(timespec="microseconds")


@functools.cache  # looking them up takes 5 ms
def running_versions() -> dict[str, str]:
    """Return the versions of Python and of the packages that write cubes, by name. Do not change it."""
    found = {"pixel_gather": __version__, "python": platform.python_version()}
    for name in _PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:  # without its metadata, a version is not known
            continue
    return found
