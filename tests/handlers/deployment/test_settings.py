"""A cold start refuses wrong settings."""

import pytest

from handlers.deployment.settings import Settings, SettingsError, SourceBucket
from pixel_gather.core.estimate.worker_limits import max_task_nbytes
from pixel_gather.io.gdal.settings import GdalSettings
from support.lambda_functions import ENVIRONMENT, cold_start

MIB = 2**20


@pytest.mark.parametrize(
    "name",
    [
        name
        for name in ENVIRONMENT
        if name.startswith(("PIXEL_GATHER_", "AWS_LAMBDA")) and not name.endswith("STATE_MACHINE_ARN")
    ],
)
def test_settings_name_the_variable_that_is_missing(name: str) -> None:
    """The error names the missing variable, so that the deployment can be repaired."""
    environment = {each: value for each, value in ENVIRONMENT.items() if each != name}

    with pytest.raises(SettingsError, match=name):
        Settings.from_environment(environment)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("PIXEL_GATHER_OUTPUT_PREFIX", "out"),
        ("PIXEL_GATHER_SOURCE_BUCKETS", "{}"),
        ("PIXEL_GATHER_SOURCE_BUCKETS", '[{"bucket": "a"}]'),
        ("PIXEL_GATHER_SOURCE_BUCKETS", "a"),
        ("PIXEL_GATHER_HTTPS_HOSTS", '"host"'),
        ("PIXEL_GATHER_LIMITS", '{"dollars": 1}'),
        ("PIXEL_GATHER_CONCURRENCY", "0"),
        ("PIXEL_GATHER_CONCURRENCY", "many"),
        ("PIXEL_GATHER_SHARD_MEMORY_MIB", "-1"),
        ("PIXEL_GATHER_SHARD_MEMORY_MIB", "[]"),
        ("PIXEL_GATHER_SHARD_MEMORY_MIB", "[3538, 1769]"),
    ],
)
def test_settings_name_the_variable_that_is_wrong(name: str, value: str) -> None:
    """The error has the variable's name and value."""
    with pytest.raises(SettingsError, match=name):
        Settings.from_environment({**ENVIRONMENT, name: value})


def test_source_buckets_are_told_without_what_is_usual() -> None:
    """A bucket may have only a name, because the environment is limited to 4,096 bytes."""
    variable = (
        '[{"name":"a"},{"name":"b","region":"us-west-2","requester_pays":true},{"name":"c","unsigned":true}]'
    )
    settings = Settings.from_environment({**ENVIRONMENT, "PIXEL_GATHER_SOURCE_BUCKETS": variable})

    assert settings.source_buckets == (
        SourceBucket(name="a"),
        SourceBucket(name="b", region="us-west-2", requester_pays=True),
        SourceBucket(name="c", unsigned=True),
    )


def test_output_prefix_may_be_empty() -> None:
    """Without a prefix, cubes lie at the top of the bucket."""
    settings = Settings.from_environment({**ENVIRONMENT, "PIXEL_GATHER_OUTPUT_PREFIX": ""})

    assert settings.cube_href("mine") == "s3://cubes/mine.zarr"


@pytest.mark.parametrize("name", ["submit", "status"])
def test_cold_start_fails_without_the_state_machine(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Functions that need the state machine's ARN fail without it."""
    with (
        pytest.raises(SettingsError, match="PIXEL_GATHER_STATE_MACHINE_ARN"),
        cold_start(monkeypatch, name, PIXEL_GATHER_STATE_MACHINE_ARN=None),
    ):
        pass


def test_smallest_worker_holds_as_large_a_shard_as_one_process() -> None:
    """Windows that are read in strips have the same strips and digest on AWS and in process."""
    assert max_task_nbytes(1769) == 512 * MIB


def test_largest_worker_holds_no_more_than_it_can_store_in_time() -> None:
    """A shard is at most 1 GiB, because its one PUT may take a minute."""
    assert max_task_nbytes(10_240) == 1024 * MIB


@pytest.mark.parametrize("memory_mib", [1769, 2048, 3538, 10_240])
def test_shards_and_gdal_fit_the_workers_memory(memory_mib: int) -> None:
    """A decoded and compressed shard, Python, and all of GDAL's children at their limits fit."""
    gdal = GdalSettings.within_memory(memory_mib, holds_a_shard=True)
    shard_mib = max_task_nbytes(memory_mib) // MIB

    assert 2 * shard_mib + 300 + gdal.max_children * gdal.child_memory_mib <= memory_mib
    assert gdal.child_memory_mib >= 256
