"""The job of one process of ``bench blocks``, and its answers."""

from dataclasses import dataclass

from pixel_gather.io.store.object_store import StoreSettings
from pixel_gather_bench.blocks.setting import BlockSetting


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockJob:
    """One process's share of writing or reading a cube."""

    setting: BlockSetting
    worker: int
    """From 0; each gets a run of shards, all of the same length."""

    place: str
    """Checked href of the cube's array."""

    pixels: str
    """Path of the ``.npy`` file that holds what is written."""

    stores: StoreSettings

    @property
    def shards(self) -> range:
        """Return which shards are this process's."""
        n, of = self.setting.n_shards, self.setting.n_workers
        return range(n * self.worker // of, n * (self.worker + 1) // of)

    @property
    def rows(self) -> slice:
        """Return the rows of those shards."""
        depth = self.setting.shard[0]
        return slice(self.shards.start * depth, min(self.shards.stop * depth, self.setting.shape[0]))


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteAnswer:
    """What writing one share took; moments are on the clock that all processes of a machine share."""

    began_s: float
    ended_s: float
    cpu_s: float
    stored_nbytes: int
    peak_rss_mib: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadAnswer:
    """What reading one share took, in each of three ways."""

    began_s: float
    ended_s: float
    cpu_s: float
    slices_per_s: float
    series_per_s: float
    largest_error: float
    peak_rss_mib: float
