"""The receipt of a cube that was made by copying the shards of others, from their receipts. Pure."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from pixel_gather.core.results.join_member import Member
from pixel_gather.core.results.receipt import FORMAT, Receipt, ReceiptFile, digest_of_rows, running_versions

JOINED: Final = "joined"
"""Key of a copy's request and record that names its members."""


def copied_receipt(
    members: Sequence[Member],
    receipts: Sequence[Receipt],
    *,
    gather: Mapping[str, Any],
    n_rows: int,
    files: Mapping[str, ReceiptFile],
    sources: str,
) -> Receipt:
    """Return the receipt of a copy. The digest of each shard is that of the member's shard.

    Args:
        members: The cubes in their order.
        receipts: Theirs.
        gather: The copy's own record in its group's attributes.
        n_rows: Rows of the copy.
        files: Those beside its arrays, by key.
        sources: Key of the one of ``files`` that has the sources.
    """
    first = receipts[0]
    shards: dict[str, str | None] = {}
    padded: dict[str, int] = {}
    offset = 0
    for member, receipt in zip(members, receipts, strict=True):
        for key, digest in receipt.shards.items():
            name, row, *rest = key.rsplit("/", 3)
            copied = "/".join([name, str(int(row) + offset), *rest])
            shards[copied] = digest
            n_here = receipt.padded.get(key, member.n_rows - int(row) * member.shard_rows)
            if n_here < member.shard_rows and (member is not members[-1] or key in receipt.padded):
                padded[copied] = n_here
        offset += member.n_padded // member.shard_rows
    return Receipt(
        format=FORMAT,
        digest=gather["digest"],
        list_digest=gather["digest"],
        planned_at=gather["planned_at"],
        request={JOINED: gather[JOINED]},
        versions=running_versions(),
        dims=first.dims,
        shape=(n_rows, *first.shape[1:]),
        shard=first.shard,
        dtypes=first.dtypes,
        codec=first.codec,
        is_lossless=all(each.is_lossless for each in receipts),
        pixels=pixels_of(receipts),
        shards=shards,
        files=dict(files),
        sources=sources,
        padded=padded,
    )


def pixels_of(receipts: Sequence[Receipt]) -> str:
    """Return a digest of all pixels: that of the members' digests, in order."""
    return digest_of_rows([each.pixels for each in receipts])
