"""A query of one's own catalog, and where a page of its answer ends. Pure."""

import base64
import binascii
import struct
from typing import Any, Final

from msgspec import Struct

from pixel_gather.core.area import Area
from pixel_gather.core.errors import RequestError
from pixel_gather.core.scene_conditions import Where
from pixel_gather.core.scenes.item import scene_hash
from pixel_gather.core.time_range import ALL_TIMES, TimeRange

_POSITION: Final = struct.Struct("<qQ")


class Position(Struct, frozen=True, kw_only=True, order=True):
    """A scene's place in every answer: newest first, and by hash within one time.

    It names the scene and not a row. So pages neither lose nor repeat a scene while the catalog is replaced.
    """

    start_us: int
    hash: int

    def is_behind(self, start_us: Any, hash_: Any) -> Any:
        """Tell of a scene, or of arrays of them, which come after this position."""
        return (start_us < self.start_us) | ((start_us == self.start_us) & (hash_ > self.hash))

    def to_token(self) -> str:
        """Return the position as a page token."""
        return base64.urlsafe_b64encode(_POSITION.pack(self.start_us, self.hash)).decode().rstrip("=")

    @classmethod
    def of_token(cls, token: str) -> "Position":
        """Take a position from a page token.

        Raises:
            RequestError: No answer had this token.
        """
        try:
            start_us, hash_ = _POSITION.unpack(base64.urlsafe_b64decode(f"{token}=="))
        except (struct.error, binascii.Error, ValueError) as error:
            raise RequestError("no answer had this token; start again without one", field="token") from error
        return cls(start_us=start_us, hash=hash_)


class WantedScenes(Struct, frozen=True, kw_only=True):
    """Which scenes are wanted, wherever they are; what is not given holds for all."""

    area: Area | None = None
    times: TimeRange = ALL_TIMES
    where: Where = ()
    collections: frozenset[str] = frozenset()
    ids: frozenset[str] = frozenset()


class SceneQuery(WantedScenes, frozen=True, kw_only=True):
    """Which scenes of one's own catalog are wanted."""

    after: Position | None = None
    """Only scenes behind this position: the last one of the page before."""

    is_latest: bool = False
    """Whether only the latest processing of each scene is wanted."""

    known_collections: tuple[str, ...] = ()
    """The catalog's, in which ``ids`` are looked for; set by whoever opened the catalog."""

    @classmethod
    def of(cls, wanted: WantedScenes) -> "SceneQuery":
        """Return the query of all wanted scenes."""
        return cls(**{name: getattr(wanted, name) for name in WantedScenes.__struct_fields__})

    @property
    def hashes(self) -> frozenset[int] | None:
        """What the wanted ids hash to in each collection that may hold them; None where no id is given."""
        if not self.ids:
            return None
        collections = self.collections or self.known_collections
        return frozenset(scene_hash(collection, id_) for collection in collections for id_ in self.ids)
