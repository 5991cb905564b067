"""The model of a worker's reading time agrees with a simulation of its single requests."""

import heapq
from copy import replace
from dataclasses import dataclass
from math import inf

import pytest

from pixel_gather.core.estimate.worker import Share, Worker

SHARE = Share(n_sources=64, n_gets=128, n_puts=2, fetched_nbytes=64 * 402_460, decoded_nbytes=64 * 524_288)
LAMBDA = Worker.on_lambda(memory_mib=1769, in_flight=64)


@dataclass(frozen=True)
class Case:
    """A worker and a share of work, and the limit that binds."""

    id: str
    worker: Worker
    share: Share = SHARE


CASES = (
    Case("network", LAMBDA),
    Case(
        "network, many sources",
        LAMBDA,
        replace(
            SHARE,
            **{
                name: 8 * getattr(SHARE, name)
                for name in ("n_sources", "n_gets", "fetched_nbytes", "decoded_nbytes")
            },
        ),
    ),
    Case("waiting", replace(LAMBDA, in_flight=4, first_byte_s=0.1)),
    Case("CPU", replace(LAMBDA, network_bytes_per_s=1e9)),
    Case("two vCPU", replace(LAMBDA, network_bytes_per_s=1e9, vcpus=2)),
    Case("one GET a source", LAMBDA, replace(SHARE, n_gets=64)),
    Case("a pixel each", LAMBDA, replace(SHARE, fetched_nbytes=64 * 17_000, decoded_nbytes=128)),
)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_reading_takes_what_its_requests_take(case: Case) -> None:
    """The model is within 20 % of a simulation in which requests wait for first byte, link and core."""
    assert case.worker.reading_s(case.share) == pytest.approx(_by_requests(case.worker, case.share), rel=0.2)


def test_nothing_to_read_takes_no_time() -> None:
    """A share without sources takes no time."""
    assert LAMBDA.reading_s(replace(SHARE, n_sources=0, n_gets=0)) == 0.0


def test_without_a_limit_a_worker_reads_faster() -> None:
    """Without the limit that binds, reading is faster."""
    assert replace(LAMBDA, network_bytes_per_s=inf).reading_s(SHARE) < LAMBDA.reading_s(SHARE)
    slow = replace(LAMBDA, in_flight=1)
    assert replace(slow, first_byte_s=0.0).reading_s(SHARE) < slow.reading_s(SHARE)
    wide = replace(LAMBDA, network_bytes_per_s=inf)
    assert replace(wide, vcpus=inf).reading_s(SHARE) < wide.reading_s(SHARE)


def test_storing_takes_longer_for_more() -> None:
    """Twice the pixels take about twice the time."""
    twice = replace(SHARE, decoded_nbytes=2 * SHARE.decoded_nbytes)

    assert LAMBDA.storing_s(twice) == pytest.approx(2 * LAMBDA.storing_s(SHARE), rel=0.1)


def _by_requests(worker: Worker, share: Share) -> float:
    """Return the time of a share by simulating first byte, link and core of each request."""
    n, gets = round(share.n_sources), round(share.n_gets / share.n_sources)
    sizes = [16_384.0] * (gets - 1) + [share.fetched_nbytes / n - 16_384 * (gets - 1)]
    per_source_s = worker.cpu_s_per_source + share.decoded_nbytes / n / worker.decoding_bytes_per_s
    link_s, cores = 0.0, [0.0] * round(worker.vcpus)
    waiting = list(range(n))
    events: list[tuple[float, int, str]] = []
    for _ in range(min(worker.in_flight, n)):
        heapq.heappush(events, (worker.first_byte_s, waiting.pop(), "0 answered"))
    now_s = 0.0
    while events:
        now_s, source, event = heapq.heappop(events)
        get, what = event.split()
        nbytes, is_last = sizes[int(get)], int(get) == gets - 1
        if what == "answered":
            link_s = max(link_s, now_s) + nbytes / worker.network_bytes_per_s
            heapq.heappush(events, (link_s, source, f"{get} fetched"))
        elif what == "fetched":
            cpu_s = worker.cpu_s_per_get + nbytes / worker.tls_bytes_per_s + is_last * per_source_s
            ended_s = max(heapq.heappop(cores), now_s) + cpu_s
            heapq.heappush(cores, ended_s)
            heapq.heappush(events, (ended_s, source, f"{get} done"))
        elif not is_last:
            heapq.heappush(events, (now_s + worker.first_byte_s, source, f"{int(get) + 1} answered"))
        elif waiting:
            heapq.heappush(events, (now_s + worker.first_byte_s, waiting.pop(), "0 answered"))
    return now_s
