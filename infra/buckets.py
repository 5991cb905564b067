"""The two buckets. One keeps the cubes. The other has the control files of gathers, which expire.

Rights are granted by `Area`: the part of a bucket that has one kind of object.
"""

from collections.abc import Sequence
from typing import Final

from aws_cdk import Duration, RemovalPolicy, Stack
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_s3 as s3
from constructs import Construct
from msgspec import Struct

from infra.grant import acknowledge, allow
from pixel_gather.core import samples
from pixel_gather.core.halt_marker import HALTED_KEY

_REDRIVE_WINDOW_DAYS: Final = 14
"""How long Step Functions allows to redrive a failed gather."""

_CONTROL_DAYS: Final = max(2 * _REDRIVE_WINDOW_DAYS, 31)
"""No less than a month: the marker of a month's budget that is spent lies there."""

_EARLIER_VERSION_DAYS: Final = 30
_UNFINISHED_UPLOAD_DAYS: Final = 7
_STATISTICS: Final = "tables/statistics/"
_STATISTICS_DAYS: Final = 90
"""After the last ranking of the same area that has measured anything."""

_CANARY_DAYS: Final = 7


class Area(Struct, frozen=True, kw_only=True):
    """The objects of one bucket whose keys match a pattern."""

    bucket: s3.IBucket
    pattern: str
    """A key, in which ``*`` stands for any text."""

    def grant_get(self, holder: iam.Role | iam.ManagedPolicy) -> None:
        """Allow reading objects."""
        self._grant(holder, "s3:GetObject")
        self._grant_key(holder, "kms:Decrypt")

    def grant_put(self, holder: iam.Role | iam.ManagedPolicy) -> None:
        """Allow writing objects, also in parts. Does not allow removing them."""
        self._grant(holder, "s3:PutObject", "s3:AbortMultipartUpload")
        self._grant_key(holder, "kms:GenerateDataKey", "kms:Decrypt")  # the latter for an upload in parts

    def grant_list(self, holder: iam.Role | iam.ManagedPolicy) -> None:
        """Allow listing these keys. S3 then answers 404 instead of 403 where an object is missing.

        For a GET, S3 checks the right to list without a prefix. So the condition ends in IfExists.
        """
        allow(
            holder,
            ["s3:ListBucket"],
            self.bucket.bucket_arn,
            conditions={"StringLikeIfExists": {"s3:prefix": self.pattern}},
        )

    def _grant_key(self, holder: iam.Role | iam.ManagedPolicy, *actions: str) -> None:
        """Allow using the bucket's key, if a customer's key encrypts it. It holds only through S3."""
        key = self.bucket.encryption_key
        if key is not None:
            stack = Stack.of(holder)
            via = {"StringEquals": {"kms:ViaService": f"s3.{stack.region}.{stack.url_suffix}"}}
            allow(holder, actions, key.key_arn, conditions=via)

    def _grant(self, holder: iam.Role | iam.ManagedPolicy, *actions: str) -> None:
        allow(
            holder,
            actions,
            self.bucket.arn_for_objects(self.pattern),
            wildcard=f"objects of gathers to come, all of them in {self.pattern} of the stack's own bucket",
        )


class Buckets(Construct):
    """Both buckets and their areas."""

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        output_prefix: str,
        retain_arrays: bool,
        names: tuple[str | None, str | None] = (None, None),
        kms_key: str | None = None,
    ) -> None:
        """Make both.

        Without names, CloudFormation chooses them. Without a customer's key, S3's own keys encrypt.
        """
        super().__init__(scope, construct_id)
        self._key = None if kms_key is None else kms.Key.from_key_arn(self, "Key", kms_key)
        self._removal = RemovalPolicy.RETAIN if retain_arrays else RemovalPolicy.DESTROY
        array_name, control_name = names
        # Cubes and tables stay until somebody removes them; what they replaced, and canaries, do not.
        self.arrays = self._bucket(
            "Arrays",
            bucket_name=array_name,
            is_versioned=True,
            lifecycle=[
                s3.LifecycleRule(
                    id="forget-what-was-replaced",
                    noncurrent_version_expiration=Duration.days(_EARLIER_VERSION_DAYS),
                    expired_object_delete_marker=True,
                    abort_incomplete_multipart_upload_after=Duration.days(_UNFINISHED_UPLOAD_DAYS),
                ),
                s3.LifecycleRule(
                    id="forget-statistics",
                    prefix=f"{output_prefix}{_STATISTICS}",
                    expiration=Duration.days(_STATISTICS_DAYS),
                ),
                s3.LifecycleRule(
                    id="forget-canaries",
                    prefix=f"{output_prefix}{samples.PREFIX}",
                    expiration=Duration.days(_CANARY_DAYS),
                ),
            ],
        )
        # All that only a running job needs.
        self.control = self._bucket(
            "Control",
            bucket_name=control_name,
            is_versioned=False,
            lifecycle=[
                s3.LifecycleRule(
                    id="expire-after-the-redrive-window",
                    expiration=Duration.days(_CONTROL_DAYS),
                    abort_incomplete_multipart_upload_after=Duration.days(_UNFINISHED_UPLOAD_DAYS),
                )
            ],
        )
        # Parts of both buckets that functions and people get rights to.
        self.cubes = Area(bucket=self.arrays, pattern=f"{output_prefix}*")
        self.roots = Area(bucket=self.arrays, pattern=f"{output_prefix}*.zarr/zarr.json")
        self.times = Area(bucket=self.arrays, pattern=f"{output_prefix}*.zarr/time/*")
        self.reports = Area(bucket=self.arrays, pattern=f"{output_prefix}*.zarr/report.*")
        self.indexes = Area(bucket=self.arrays, pattern=f"{output_prefix}*.zarr/headers.parquet")
        self.rows = Area(bucket=self.arrays, pattern=f"{output_prefix}*.zarr/rows.parquet")
        self.contributors = Area(bucket=self.arrays, pattern=f"{output_prefix}*.zarr/contributors.parquet")
        self.receipts = Area(bucket=self.arrays, pattern=f"{output_prefix}*.zarr/receipt.json")
        self.statuses = Area(bucket=self.arrays, pattern=f"{output_prefix}*.zarr/status/*")
        self.claims = Area(bucket=self.arrays, pattern=f"{output_prefix}*.zarr/versions/*.claim")
        self.archives = Area(bucket=self.arrays, pattern=f"{output_prefix}*.archive.json")
        self.metadata = Area(bucket=self.arrays, pattern=f"{output_prefix}*/zarr.json")
        self.gathers = Area(bucket=self.control, pattern="gathers/*")
        self.sidecars = Area(bucket=self.control, pattern="gathers/*/shards/*")
        self.manifests = Area(bucket=self.control, pattern="gathers/*/manifests/*")
        self.pace = Area(bucket=self.control, pattern="pace/*")
        self.halted = Area(bucket=self.control, pattern=HALTED_KEY)
        self.summaries = Area(bucket=self.control, pattern="summaries/*")
        self.cancelled = Area(bucket=self.control, pattern="cancelled/*")
        self.lists = Area(bucket=self.control, pattern="lists/*")
        self.samples = Area(bucket=self.control, pattern=f"{samples.FOLDER}*")
        self.tables = Area(bucket=self.arrays, pattern=f"{output_prefix}tables/*/*.*")
        self.statistics = Area(bucket=self.arrays, pattern=f"{output_prefix}{_STATISTICS}*")
        self.table_results = Area(bucket=self.arrays, pattern=f"{output_prefix}tables/*/result.json")
        self.table_files = Area(bucket=self.control, pattern="tables/*")
        self.table_sidecars = Area(bucket=self.control, pattern="tables/*/measured/*")
        self.table_manifests = Area(bucket=self.control, pattern="tables/*/manifests/*")

    def _bucket(
        self,
        name: str,
        *,
        bucket_name: str | None,
        is_versioned: bool,
        lifecycle: Sequence[s3.LifecycleRule],
    ) -> s3.Bucket:
        bucket = s3.Bucket(
            self,
            name,
            bucket_name=bucket_name,
            versioned=is_versioned,
            removal_policy=self._removal,
            lifecycle_rules=list(lifecycle),
            block_public_access=s3.BlockPublicAccess.BLOCK_ALL,
            encryption=s3.BucketEncryption.S3_MANAGED if self._key is None else s3.BucketEncryption.KMS,
            encryption_key=self._key,
            bucket_key_enabled=None if self._key is None else True,  # one request to KMS for many objects
            enforce_ssl=True,
            minimum_tls_version=1.2,
            object_ownership=s3.ObjectOwnership.BUCKET_OWNER_ENFORCED,
        )
        acknowledge(
            bucket,
            "S1",
            "only the stack's own roles write here, and they log it; to audit reads, "
            "record data events in CloudTrail, for the sources too",
        )
        return bucket
