"""Writes the emulator's TLS certificate, and a bundle that trusts it and all that was trusted before.

The array bucket and the bucket of `cdk bootstrap` deny plain HTTP. So the emulator needs TLS even on
loopback. The authority's private key is never written: it signs one certificate and is gone.
"""

import os
import ssl
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

import trustme
from botocore.httpsession import DEFAULT_CA_BUNDLE
from msgspec import Struct

_DAYS: Final = 30

BUNDLE_VARIABLES: Final = (
    "AWS_CA_BUNDLE",  # boto3 and the AWS CLI
    "SSL_CERT_FILE",  # obstore, OpenSSL, uv
    "REQUESTS_CA_BUNDLE",  # requests
    "CURL_CA_BUNDLE",  # curl
    "NODE_EXTRA_CA_CERTS",  # the CDK
)
"""Each names a file. All but the last replace what a program trusts, so our bundle holds that as well."""


class Certificates(Struct, frozen=True, kw_only=True):
    """PEM files in one folder."""

    certificate: Path
    key: Path
    bundle: Path
    """The new authority, and all authorities that the environment or the system trusts."""


def write_certificates(folder: Path, environment: Mapping[str, str]) -> Certificates:
    """Write a certificate for 127.0.0.1 and localhost, its key, and the bundle that trusts it.

    The folder exists. The bundle includes those that the environment names.
    """
    ends = datetime.now(UTC) + timedelta(days=_DAYS)
    authority = trustme.CA(organization_name="Pixel Gather emulator")
    leaf = authority.issue_cert("localhost", "127.0.0.1", not_after=ends)
    written = Certificates(
        certificate=folder / "certificate.pem", key=folder / "key.pem", bundle=folder / "bundle.pem"
    )
    written.certificate.write_bytes(b"".join(each.bytes() for each in leaf.cert_chain_pems))
    written.key.touch(mode=0o600)
    written.key.write_bytes(leaf.private_key_pem.bytes())
    trusted = [path.read_bytes().strip() for path in _trusted_already(environment)]
    written.bundle.write_bytes(b"\n".join([authority.cert_pem.bytes(), *trusted]) + b"\n")
    return written


def _trusted_already(environment: Mapping[str, str]) -> list[Path]:
    """Return the bundles that the environment names; without any, the system's; without that, botocore's."""
    named = {Path(environment[name]) for name in BUNDLE_VARIABLES if environment.get(name)}
    if found := sorted(path for path in named if path.is_file()):
        return found
    defaults = ssl.get_default_verify_paths()
    for path in (defaults.cafile, defaults.openssl_cafile, DEFAULT_CA_BUNDLE):
        if path and os.path.isfile(path):  # noqa: PTH113 # they are strings or None
            return [Path(path)]
    return []
