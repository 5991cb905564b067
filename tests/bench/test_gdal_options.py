"""How GDAL is set and what it calls a source."""

import pytest

from pixel_gather.io.store.store_settings import StoreSettings
from pixel_gather_bench.gdal_options import gdal_options, gdal_path

PUBLISHED = {
    "GDAL_DISABLE_READDIR_ON_OPEN": "EMPTY_DIR",
    "CPL_VSIL_CURL_ALLOWED_EXTENSIONS": ".tif",
    "VSI_CACHE": "FALSE",
}


STORES = {
    "nothing": (StoreSettings(), {}, {}),
    "all": (
        StoreSettings(region="eu-south-1", profile="me", unsigned=True, requester_pays=True),
        {},
        {
            "AWS_REGION": "eu-south-1",
            "AWS_PROFILE": "me",
            "AWS_NO_SIGN_REQUEST": "YES",
            "AWS_REQUEST_PAYER": "requester",
        },
    ),
    "endpoint": (
        StoreSettings(endpoint="http://127.0.0.1:9000/"),
        {},
        {"AWS_S3_ENDPOINT": "127.0.0.1:9000", "AWS_HTTPS": "NO", "AWS_VIRTUAL_HOSTING": "FALSE"},
    ),
    "endpoint of the environment": (
        StoreSettings(),
        {"AWS_ENDPOINT_URL": "https://minio.example"},
        {"AWS_S3_ENDPOINT": "minio.example", "AWS_HTTPS": "YES", "AWS_VIRTUAL_HOSTING": "FALSE"},
    ),
}
"""Store settings, the environment, and what GDAL is told beside the published settings."""


@pytest.mark.parametrize(("stores", "environment", "added"), STORES.values(), ids=STORES)
def test_gdal_reaches_the_store_that_the_other_engine_reaches(
    stores: StoreSettings, environment: dict[str, str], added: dict[str, str]
) -> None:
    """Both engines read the same objects with the same rights, GDAL with the published settings."""
    options = gdal_options(["s3://b/a.tif"], stores, header_nbytes=None, environment=environment)

    assert options == PUBLISHED | added


@pytest.mark.parametrize(
    ("hrefs", "extensions"),
    [
        (["s3://b/a.TIF", "s3://b/b.jp2"], ".tif,.jp2"),
        (["https://h/a.tif?key=1"], None),
        (["https://h/cog"], None),
        (["file:///cog"], ".tif"),
    ],
)
def test_endings_are_widened_to_what_the_list_has(hrefs: list[str], extensions: str | None) -> None:
    """GDAL looks only at those endings over a network, and would miss what the list names otherwise."""
    options = gdal_options(hrefs, StoreSettings(), header_nbytes=32768, environment={})

    assert options.get("CPL_VSIL_CURL_ALLOWED_EXTENSIONS") == extensions
    assert options["GDAL_INGESTED_BYTES_AT_OPEN"] == "32768"


@pytest.mark.parametrize(
    ("href", "path"),
    [
        ("s3://bucket/a b.tif", "/vsis3/bucket/a b.tif"),
        ("https://host/a%20b.tif", "/vsicurl/https://host/a%20b.tif"),
        ("file:///folder/a%20b.tif", "/folder/a b.tif"),
    ],
)
def test_gdal_path_names_the_same_object(href: str, path: str) -> None:
    """Only files are decoded: an object's key is what it is, an address stays encoded."""
    assert gdal_path(href) == path
