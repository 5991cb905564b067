"""How often finish asks S3: each wait in turn costs a small gather a part of its time."""

from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from pixel_gather.core.samples import N_SAMPLES, PIXELS, key_of, request_of, sample
from support.counted_s3 import CountedS3, counted_s3
from support.lambda_functions import ENVIRONMENT, Context, StateMachine, cold_start, emptied


@pytest.fixture
def server() -> Iterator[CountedS3]:
    """Serve S3, and count what it is asked."""
    with counted_s3() as found:
        yield found


@pytest.mark.long
def test_finish_of_a_new_cube_puts_each_object_once_and_looks_once_at_the_root(
    server: CountedS3, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It knows what the plan has put. All objects are put between one look and the commit."""
    for variable, value in (dict(ENVIRONMENT) | {"AWS_ENDPOINT_URL": server.endpoint}).items():
        monkeypatch.setenv(variable, value)
    client = emptied(server.endpoint)
    for index in range(N_SAMPLES):
        client.put_object(Bucket="control", Key=key_of(index), Body=sample(index))
    request = request_of("control", name="canary-counted", report=False)
    with ExitStack() as stack:
        functions = ("plan_gather", "gather_shard", "finish_gather")
        plan, shard, finish = (stack.enter_context(cold_start(monkeypatch, name)) for name in functions)
        machine = StateMachine(plan=plan, shard=shard, finish=finish, s3=client)
        server.forget()
        verdict = machine.planned(request)
        planned = Counter(method for method, _ in server.asked)
        for item in machine.items(verdict):
            event = {"gather": verdict["gather"], "execution": verdict["execution"], "tasks": item}
            shard.handler(event | {"limit_s": 60}, Context())
        server.forget()
        result = machine.finished(verdict)
    in_cube = [
        (method, path.partition("canary-counted.zarr/")[2])
        for method, path in server.asked
        if ".zarr/" in path
    ]
    puts = Counter(key for method, key in in_cube if method == "PUT")
    before_commit = in_cube[: in_cube.index(("PUT", "zarr.json"))]

    assert result["digest"] == PIXELS
    assert set(puts.values()) == {1}
    assert before_commit.count(("HEAD", "zarr.json")) == 1
    assert [key for method, key in before_commit if method == "HEAD"] == ["band_1/zarr.json", "zarr.json"]
    assert planned["POST"] == 0, "a short list is put in one request"
