"""One way, measured once."""

import resource
import sys
import time
from dataclasses import replace
from importlib import import_module

import xxhash

from pixel_gather.core import process_usage
from pixel_gather_bench.ingest.job import IngestJob, MeasuredWay, Puller
from pixel_gather_bench.ingest.ways import BY_NAME


def _puller(job: IngestJob) -> Puller:
    """Return the way. Its module is imported now, because each has imports of its own."""
    module, _, name = BY_NAME[job.way].puller.partition(":")
    made: Puller = getattr(import_module(f"pixel_gather_bench.ingest.{module}"), name)(job)
    return made


def measure(job: IngestJob) -> MeasuredWay:
    """Do a job and return what it took."""
    way = _puller(job)
    cpu_before_s = process_usage.cpu_s()
    try:
        found = _whole(job, way) if job.phase == "whole" else _ranges(job, way)
    finally:
        way.end()  # the process of a mount has to end for its CPU to count
    found = replace(found, cpu_s=process_usage.cpu_s() - cpu_before_s, peak_rss_mib=_peak_rss_mib())
    if job.phase == "whole" and BY_NAME[job.way].downloads:
        return with_random(found, _ranges(job, way))
    return found


def with_random(whole: MeasuredWay, random: MeasuredWay) -> MeasuredWay:
    """Return the measurement of the whole object together with that of its random ranges."""
    return replace(
        whole,
        random_s=random.total_s / random.n_samples,
        random_digest=random.digest,
        first_random_s=whole.download_s + random.first_sample_s,
    )


def _whole(job: IngestJob, way: Puller) -> MeasuredWay:
    """Read the object from its beginning to its end."""
    digest = xxhash.xxh3_128()
    first_s, n_seen = 0.0, 0
    began = time.perf_counter()
    way.ready(0)
    download_s = time.perf_counter() - began if BY_NAME[job.way].downloads else 0.0
    for content in way.stream(0):
        digest.update(content)
        n_before, n_seen = n_seen, n_seen + len(content)
        if n_before < job.sample_nbytes <= n_seen:
            first_s = time.perf_counter() - began
    return MeasuredWay(
        digest=digest.hexdigest(),
        first_sample_s=first_s,
        total_s=time.perf_counter() - began,
        n_samples=-(-job.objects[0].nbytes // job.sample_nbytes),
        download_s=download_s,
    )


def _ranges(job: IngestJob, way: Puller) -> MeasuredWay:
    """Read the ranges one after the other."""
    digest = xxhash.xxh3_128()
    first_s = 0.0
    began = time.perf_counter()
    for position, content in enumerate(way.reads(job.reads)):
        digest.update(content)
        first_s = first_s if position else time.perf_counter() - began
    return MeasuredWay(
        digest=digest.hexdigest(),
        first_sample_s=first_s,
        total_s=time.perf_counter() - began,
        n_samples=len(job.reads),
    )


def _peak_rss_mib() -> float:
    """Return the most memory of this process, and of the largest of its children where that has more.

    A child's figure starts from that of this process: what is less is not known.
    """
    of_children = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    child_mib = of_children / (2**20 if sys.platform == "darwin" else 2**10)
    own_mib = process_usage.peak_rss_mib()
    return own_mib + (child_mib if child_mib > own_mib else 0.0)
