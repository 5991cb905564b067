"""A former version of a cube: the same objects under the group's metadata of that time."""

from typing import override

from zarr.abc.store import ByteRequest, Store
from zarr.core.buffer import Buffer, BufferPrototype
from zarr.storage import WrapperStore

from pixel_gather.core.stores import ROOT_KEY


class VersionStore(WrapperStore[Store]):
    """A store whose group's metadata are those of a former version.

    They hold the metadata of all arrays, with their former shapes. Rows of that time never
    change, but that one which had failed may have been read since.
    """

    def __init__(self, store: Store, root: bytes) -> None:
        """Take the store of the cube, and the group's metadata of the version."""
        super().__init__(store)
        self._root = root

    @override
    async def get(
        self, key: str, prototype: BufferPrototype, byte_range: ByteRequest | None = None
    ) -> Buffer | None:
        """Return an object, or a part of it."""
        if key == ROOT_KEY and byte_range is None:
            return prototype.buffer.from_bytes(self._root)
        return await super().get(key, prototype, byte_range)
