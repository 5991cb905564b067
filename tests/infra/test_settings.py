"""Settings: valid values, and the errors of wrong keys."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import infra.settings
from infra.context import SettingsError
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Wrong:
    """A wrong value of a key."""

    key: str
    value: Any
    named: str | None = None
    """What the error names, if it is not the key itself."""

    @property
    def id(self) -> str:
        """Return the name of the case."""
        return f"{self.key}={self.value}"


WRONG = (
    Wrong(key="stage", value="Main"),
    Wrong(key="stage", value="a-name-of-more-than-20-letters"),
    Wrong(key="stage", value=7),
    Wrong(key="catalog", value="catalogs/all.parquet"),
    Wrong(key="catalog", value="s3://catalogs/all.csv"),
    Wrong(key="catalog", value="s3://catalogs/*.parquet"),
    Wrong(key="catalog", value="s3://Catalogs/all.parquet"),
    Wrong(key="source_buckets", value="scenes"),
    Wrong(key="source_buckets", value={"name": "scenes"}),
    Wrong(key="source_buckets", value=[{"region": "eu-west-1"}], named="source_buckets[0]"),
    Wrong(key="source_buckets", value=[{"name": "scenes", "reqester_pays": True}], named="source_buckets[0]"),
    Wrong(key="source_buckets", value=[{"name": "s3://scenes"}], named="source_buckets[0].name"),
    Wrong(key="source_buckets", value=[{"name": "a*"}], named="source_buckets[0].name"),
    Wrong(key="source_buckets", value=[{"name": "scenes"}, {"name": "scenes"}]),
    Wrong(
        key="source_buckets",
        value=[{"name": "open"}, {"name": "scenes", "region": "Ireland"}],
        named="source_buckets[1].region",
    ),
    Wrong(
        key="source_buckets",
        value=[{"name": "scenes", "unsigned": "perhaps"}],
        named="source_buckets[0].unsigned",
    ),
    Wrong(
        key="source_buckets",
        value=[{"name": "scenes", "unsigned": True, "requester_pays": True}],
        named="source_buckets[0]",
    ),
    Wrong(
        key="source_buckets",
        value=[{"name": "scenes", "kms_key": "arn:aws:kms:eu-west-1:111122223333:alias/scenes"}],
        named="source_buckets[0].kms_key",
    ),
    Wrong(
        key="source_buckets",
        value=[{"name": "scenes", "region": "us-east-1", "kms_key": KEY}],
        named="source_buckets[0].kms_key",
    ),
    Wrong(
        key="source_buckets",
        value=[{"name": "scenes", "unsigned": True, "kms_key": KEY}],
        named="source_buckets[0]",
    ),
    Wrong(key="account_concurrency", value=3),
    Wrong(key="alarm_usd_per_day", value=0),
    Wrong(key="https_hosts", value=["https://data.example.org/"], named="https_hosts[0]"),
    Wrong(key="https_hosts", value=["*"], named="https_hosts[0]"),
    Wrong(key="catalog_hosts", value="stac.example.org"),
    Wrong(key="catalog_hosts", value=["https://stac.example.org/v1"], named="catalog_hosts[0]"),
    Wrong(key="catalog_hosts", value=["stac.example.org", "*.example.org"], named="catalog_hosts[1]"),
    Wrong(key="signing", value=["planetary"], named="signing[0]"),
    Wrong(key="signing", value=["earthdata"], named="earthdata_secret"),
    Wrong(key="earthdata_secret", value="earthdata/token"),
    Wrong(key="earthdata_secret", value="arn:aws:secretsmanager:x"),
    Wrong(key="output_prefix", value="cubes"),
    Wrong(key="output_prefix", value="/cubes/"),
    Wrong(key="output_prefix", value="../"),
    Wrong(key="output_prefix", value="*/"),
    Wrong(key="retain_arrays", value="maybe"),
    Wrong(key="worker_memory_mib", value=1024),
    Wrong(key="worker_memory_mib", value="lots"),
    Wrong(key="worker_concurrency", value=0),
    Wrong(key="worker_concurrency", value=1.5),
    Wrong(key="max_workers", value=10_001),
    Wrong(key="max_usd", value=-1),
    Wrong(key="max_usd", value=True),
    Wrong(key="max_files", value=2.5),
    Wrong(key="max_pixels", value="many"),
    Wrong(key="max_fetched_bytes", value=0),
    Wrong(key="max_failed_shards", value=5),
    Wrong(key="requests_per_s", value=5),
    Wrong(key="requests_per_s", value={"data.example.org": 5}),
    Wrong(key="requests_per_s", value={"https://data.example.org/a": 5}),
    Wrong(key="requests_per_s", value={"s3://scenes": 0}, named="requests_per_s.s3://scenes"),
    Wrong(key="alarm_email", value="somebody"),
    Wrong(key="api_auth", value="api-key"),
    Wrong(key="api_log_role", value=1),
    Wrong(key="emulated", value="yes"),
)


@pytest.mark.parametrize("wrong", WRONG, ids=lambda wrong: wrong.id)
def test_settings_name_the_key_that_is_wrong(wrong: Wrong) -> None:
    """The error names the key and what its value should be."""
    expected = rf"context key {re.escape(wrong.named or wrong.key)}: .* should be "

    with pytest.raises(SettingsError, match=expected):
        settings_of(**{wrong.key: wrong.value})


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
