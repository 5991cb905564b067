"""How a deployment's functions sign: by what the request says, with a token from Secrets Manager."""

from typing import Any

import boto3
import pytest

from handlers.deployment.settings import Settings
from handlers.deployment.stores import Deployment
from handlers.gather.readers import Readers
from handlers.rank.open_ranker import open_ranker
from handlers.rank.rank_request import admit_ranking
from pixel_gather.core.errors import GatherError
from pixel_gather.features.rank.choose_reads import NothingKept
from support.lambda_functions import ENVIRONMENT

ALLOWED = {"PIXEL_GATHER_SIGNING": '["earthdata"]', "PIXEL_GATHER_EARTHDATA_SECRET": "earthdata/token"}


@pytest.fixture
def deployment(s3: Any, s3_url: str) -> Deployment:
    """Return a deployment that signs for NASA's buckets; S3 is there for its endpoint alone."""
    assert s3 is not None
    return Deployment(Settings.from_environment(dict(ENVIRONMENT) | ALLOWED | {"AWS_ENDPOINT_URL": s3_url}))


def test_the_token_is_read_by_its_name_when_it_is_needed(deployment: Deployment, s3_url: str) -> None:
    """Nothing is read for gathers that do not sign. A token that was replaced is read anew."""
    assert deployment.signed_objects("none") is deployment.objects
    signing = deployment.signed_objects("earthdata").settings.signing
    assert signing is not None
    assert signing.longest_jitter_s > 0
    assert signing.read_token is not None
    with pytest.raises(GatherError):
        signing.read_token()

    client = boto3.client("secretsmanager", endpoint_url=s3_url)
    client.create_secret(Name="earthdata/token", SecretString="EDL\n")
    assert signing.read_token() == "EDL"
    client.put_secret_value(SecretId="earthdata/token", SecretString="NEW")
    assert signing.read_token() == "NEW"


def test_each_way_of_signing_has_a_reader_of_its_own(deployment: Deployment) -> None:
    """A worker keeps them for the next gather."""
    readers = Readers(deployment, holds_a_shard=False)

    assert readers.of("none") is readers.of("none")
    assert readers.of("earthdata") is not readers.of("none")


def test_all_that_is_signed_for_shares_one_token(deployment: Deployment) -> None:
    """A plan reads a list, chips, an index and headers. Each new reader would ask for a token of its own."""
    signed = deployment.signed_objects("earthdata")

    assert signed is deployment.signed_objects("earthdata")
    assert signed is not deployment.signed_objects("planetary-computer")


def test_rankings_sign_as_gathers_do(deployment: Deployment) -> None:
    """By what their sources say."""
    body = {"sources": {"hrefs": ["s3://sources/a.tif"], "sign": "earthdata"}, "by": "b1"}
    asked = admit_ranking(body, deployment.settings)

    async def kind() -> str:
        async with open_ranker(asked, deployment, kept=NothingKept(), source_timeout_s=1.0) as (_, ranges):
            objects: Any = ranges.objects
            return str(objects.settings.signing.kind)

    assert deployment.run(kind()) == "earthdata"
