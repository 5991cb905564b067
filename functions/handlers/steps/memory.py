"""How much of a function's memory GDAL may take."""

from pixel_gather.adapters.gdal.settings import GdalSettings
from pixel_gather.estimate.worker_memory import ONE_VCPU_MIB, PYTHON_MIB, max_task_nbytes


def gdal_settings(memory_mib: int, *, holds_a_shard: bool) -> GdalSettings:
    """Return how many child processes may run GDAL, one per vCPU, and how much memory each may allocate."""
    shards_mib = 2 * max_task_nbytes(memory_mib) // 2**20 if holds_a_shard else 0
    n_children = max(memory_mib // ONE_VCPU_MIB, 1)
    left_mib = max(memory_mib - shards_mib - PYTHON_MIB, 256)
    most = GdalSettings()
    return GdalSettings(
        max_children=n_children, child_memory_mib=min(left_mib // n_children, most.child_memory_mib)
    )
