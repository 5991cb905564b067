"""Where each member's shards lie in the joined array, and the folders that hold them. Pure."""

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Final
from urllib.parse import quote

from msgspec import Struct

from pixel_gather.core.results.join_member import Member

_PLAIN: Final = re.compile(r"[A-Za-z0-9._~+=,@-]+")


class Reference(Struct, frozen=True, kw_only=True):
    """One chunk of an array, or one whole shard: a range of an object."""

    index: tuple[int, ...]
    """Position in the array's grid of chunks or shards: (row, y, x)."""

    href: str
    etag: str
    """Version of the object. Another version is refused when the chunk is read."""

    start: int = 0
    nbytes: int


def refer_to_shards(members: Sequence[Member], *, first_row: int) -> Iterator[tuple[str, Reference]]:
    """Yield the shards of members whose rows follow each other, each with the name of its measurement.

    The members are of one kind. The first row is the start of a shard.
    """
    at = first_row
    for each in members:
        offset = at // each.shard_rows
        for shard in each.shards:
            row, *others = shard.index
            href, index = f"{each.place}/{shard.key}", (row + offset, *others)
            yield shard.measurement, Reference(href=href, index=index, etag=shard.etag, nbytes=shard.nbytes)
        at += each.n_padded


def percent_encode(href: str) -> str:
    """Return an href as an address: keys of S3 are percent-encoded there, as paths of files are."""
    scheme, _, path = href.partition("://")
    return f"s3://{quote(path)}" if scheme == "s3" else href


def innermost_folders(places: Iterable[str]) -> tuple[str, ...]:
    """Return, for each bucket and for the local files, the innermost folder that holds all its cubes.

    Each ends in a slash. Icechunk compares folders wrongly if their names have characters that are encoded in
    addresses, such as spaces. So a folder ends before such a name.
    """
    by_root: dict[str, list[tuple[str, ...]]] = {}
    for place in places:
        scheme, _, path = place.partition("://")
        bucket, *inner = path.split("/")
        by_root.setdefault(f"{scheme}://{bucket}/", []).append(tuple(inner[:-1]))
    return tuple(root + "".join(f"{part}/" for part in _common(paths)) for root, paths in by_root.items())


def not_within(places: Iterable[str], folders: Iterable[str]) -> tuple[str, ...]:
    """Return the cubes that lie in none of some folders."""
    known = tuple(folders)
    return tuple(place for place in places if not place.startswith(known))


def _common(paths: Sequence[tuple[str, ...]]) -> Sequence[str]:
    first, last = min(paths), max(paths)
    same = next((n for n, pair in enumerate(zip(first, last, strict=False)) if pair[0] != pair[1]), None)
    common = first[: min(len(first), len(last)) if same is None else same]
    odd = next((n for n, name in enumerate(common) if not _PLAIN.fullmatch(name)), None)
    return common[:odd]
