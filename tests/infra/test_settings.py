"""Settings: valid values, and the errors of wrong keys."""

import re
from pathlib import Path
from typing import Any

import pytest

import infra.settings
from infra.cdk_context import SettingsError
from infra.settings import Caps, Settings, SourceBucket


def settings_of(**context: Any) -> Settings:
    """Read settings from a context."""
    return Settings.from_context(context)


def test_settings_need_no_key() -> None:
    """Without any key the deployment is complete, reads no bucket, and has caps."""
    settings = settings_of()

    assert settings == Settings()
    assert settings.source_buckets == ()
    assert settings.caps.usd == 10
    assert settings.stack_name == "PixelGather-main"


def test_settings_are_the_same_from_the_command_line_and_from_cdk_json() -> None:
    """Texts from the command line and values from cdk.json give the same settings."""
    as_text = settings_of(
        source_buckets='[{"name": "scenes", "requester_pays": true}]',
        https_hosts='["data.example.org"]',
        worker_memory_mib="2048",
        max_usd="2.5",
        max_files="none",
        max_failed_shards="0",
        requests_per_s='{"https://data.example.org:8443": 5, "s3://scenes": 0.5}',
        retain_arrays="false",
        emulated="True",
        api_log_role="false",
    )
    as_values = settings_of(
        source_buckets=[{"name": "scenes", "requester_pays": True}],
        https_hosts=["data.example.org"],
        worker_memory_mib=2048,
        max_usd=2.5,
        max_files="none",
        max_failed_shards=0,
        requests_per_s={"https://data.example.org:8443": 5, "s3://scenes": 0.5},
        retain_arrays=False,
        emulated=True,
        api_log_role=False,
    )

    assert as_text == as_values
    assert as_text == Settings(
        source_buckets=(SourceBucket(name="scenes", requester_pays=True),),
        https_hosts=("data.example.org",),
        worker_memory_mib=2048,
        caps=Caps(
            usd=2.5,
            files=None,
            failed_shards=0,
            requests_per_s={"https://data.example.org:8443": 5, "s3://scenes": 0.5},
        ),
        retain_arrays=False,
        emulated=True,
        api_log_role=False,
    )


KEY = "arn:aws:kms:eu-west-1:111122223333:key/1234abcd-12ab-34cd-56ef-1234567890ab"


def test_more_workers_than_the_account_runs_are_refused_with_what_it_runs() -> None:
    """An explicit number is refused with the account's limit. The default is lowered."""
    assert settings_of(account_concurrency="10").caps.workers == 8

    with pytest.raises(SettingsError, match=r"context key max_workers: 9 should be at most 8: .*account"):
        settings_of(account_concurrency="10", max_workers="9")


@pytest.mark.parametrize(
    ("key", "value"), [("array_bucket", "UP"), ("source_buckets", [{"name": "My_Bucket"}])]
)
def test_wrong_names_of_buckets_are_told_what_a_name_may_have(key: str, value: Any) -> None:
    """Capitals are the usual mistake."""
    with pytest.raises(SettingsError, match="should be the name of an S3 bucket: 3 to 63 lower-case letters"):
        settings_of(**{key: value})


WRONG: tuple[tuple[str, Any], ...] = (
    ("stage", "Main"),
    ("stage", "a-name-of-more-than-20-letters"),
    ("stage", 7),
    ("catalog", "catalogs/all.parquet"),
    ("catalog", "s3://catalogs/all.csv"),
    ("catalog", "s3://catalogs/*.parquet"),
    ("catalog", "s3://Catalogs/all.parquet"),
    ("source_buckets", "scenes"),
    ("source_buckets", {"name": "scenes"}),
    ("source_buckets[0]", [{"region": "eu-west-1"}]),
    ("source_buckets[0]", [{"name": "scenes", "reqester_pays": True}]),
    ("source_buckets[0].name", [{"name": "s3://scenes"}]),
    ("source_buckets[0].name", [{"name": "a*"}]),
    ("source_buckets", [{"name": "scenes"}, {"name": "scenes"}]),
    ("source_buckets[1].region", [{"name": "open"}, {"name": "scenes", "region": "Ireland"}]),
    ("source_buckets[0].unsigned", [{"name": "scenes", "unsigned": "perhaps"}]),
    ("source_buckets[0]", [{"name": "scenes", "unsigned": True, "requester_pays": True}]),
    (
        "source_buckets[0].kms_key",
        [{"name": "scenes", "kms_key": "arn:aws:kms:eu-west-1:111122223333:alias/scenes"}],
    ),
    ("source_buckets[0].kms_key", [{"name": "scenes", "region": "us-east-1", "kms_key": KEY}]),
    ("source_buckets[0]", [{"name": "scenes", "unsigned": True, "kms_key": KEY}]),
    ("account_concurrency", 3),
    ("measured.ACCOUNT", {"ACCOUNT": 0}),
    ("measured.CHILD", {"CHILD": -1}),
    ("alarm_usd_per_day", 0),
    ("https_hosts[0]", ["https://data.example.org/"]),
    ("https_hosts[0]", ["*"]),
    ("catalog_hosts", "stac.example.org"),
    ("catalog_hosts[0]", ["https://stac.example.org/v1"]),
    ("catalog_hosts[1]", ["stac.example.org", "*.example.org"]),
    ("signing[0]", ["planetary"]),
    ("earthdata_secret", "earthdata/token"),
    ("earthdata_secret", "arn:aws:secretsmanager:x"),
    ("output_prefix", "cubes"),
    ("output_prefix", "/cubes/"),
    ("output_prefix", "../"),
    ("output_prefix", "*/"),
    ("retain_arrays", "maybe"),
    ("worker_memory_mib", 1024),
    ("worker_memory_mib", "lots"),
    ("worker_concurrency", 0),
    ("worker_concurrency", 1.5),
    ("max_workers", 10_001),
    ("max_usd", -1),
    ("max_usd", True),
    ("max_files", 2.5),
    ("max_pixels", "many"),
    ("max_fetched_bytes", 0),
    ("max_failed_shards", 5),
    ("requests_per_s", 5),
    ("requests_per_s", {"data.example.org": 5}),
    ("requests_per_s", {"https://data.example.org/a": 5}),
    ("requests_per_s.s3://scenes", {"s3://scenes": 0}),
    ("requests_per_s.s3://scenes", {"s3://scenes": None}),
    ("alarm_email", "somebody"),
    ("api_auth", "api-key"),
    ("api_log_role", 1),
    ("emulated", "yes"),
)
"""What the error names, a key or a part of its value, and the value."""


@pytest.mark.parametrize(("named", "value"), WRONG)
def test_settings_name_the_key_that_is_wrong(named: str, value: Any) -> None:
    """The error names the key and what its value should be."""
    key, *_ = re.split(r"[\[.]", named)

    with pytest.raises(SettingsError, match=rf"context key {re.escape(named)}: .* should be "):
        settings_of(**{key: value})


def test_signing_for_earthdata_needs_the_name_of_a_token() -> None:
    """The error names the key that is missing."""
    with pytest.raises(SettingsError, match=r"context key earthdata_secret: .* should be "):
        settings_of(signing=["earthdata"])


def test_deploy_page_names_every_setting() -> None:
    """The table has exactly the keys of the context, except the emulator's own."""
    source = Path(infra.settings.__file__).read_text(encoding="utf-8")
    keys = set(re.findall(r'context\.\w+\(\s*"(\w+)"', source)) - {"emulated"}
    page = (Path(__file__).parents[2] / "docs/deploy.md").read_text(encoding="utf-8")
    table = page.partition("| key | default | meaning |")[2].partition("\n\n")[0]
    named = {key for line in table.splitlines()[2:] for key in re.findall(r"`(\w+)`", line.split("|")[1])}

    assert named == keys


@pytest.mark.parametrize(
    ("key", "says"),
    [("max_used", "max_usd is one"), ("source_bucket", "source_buckets is one"), ("x", "a setting")],
)
def test_settings_refuse_a_key_that_nothing_reads(key: str, says: str) -> None:
    """A misspelled cap is an error, because otherwise there would be no cap."""
    with pytest.raises(SettingsError, match=says):
        settings_of(**{key: 5})


def test_settings_leave_the_cdks_own_keys_alone() -> None:
    """The CDK's feature flags and lookups are accepted."""
    own = {
        "@aws-cdk/core:x": True,
        "aws:cdk:enable": [],
        "availability-zones:account=1": ["a"],
        "aws-cdk:x": 1,
    }

    assert Settings.from_context(own) == Settings()
