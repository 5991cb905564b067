"""The emulator's TLS certificate, and one bundle that trusts it beside all that was trusted before.

S3 buckets that deny plain HTTP, as ours and the one of `cdk bootstrap` do, need TLS even on loopback.
The authority's private key is thrown away as soon as the one certificate is signed.
"""

import os
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import Final

from botocore.httpsession import DEFAULT_CA_BUNDLE
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

_DAYS: Final = 30

BUNDLE_VARIABLES: Final = (
    "AWS_CA_BUNDLE",  # boto3 and the AWS CLI
    "SSL_CERT_FILE",  # obstore, OpenSSL, uv
    "REQUESTS_CA_BUNDLE",  # requests
    "CURL_CA_BUNDLE",  # curl
    "NODE_EXTRA_CA_CERTS",  # the CDK
)
"""Each names a file; all but the last replace what a program trusts, so the bundle holds that too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Certificates:
    """PEM files in one folder."""

    certificate: Path
    key: Path
    bundle: Path
    """The new authority, and every one that the environment or the system trusts."""


def write_certificates(folder: Path, environment: Mapping[str, str]) -> Certificates:
    """Write a certificate for 127.0.0.1 and localhost, its key, and the bundle that trusts it.

    Args:
        folder: Is there already.
        environment: Bundles that its variables name are taken into the new one.
    """
    authority_key, key = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    authority_name, name = _name("Pixel Gather emulator authority"), _name("Pixel Gather emulator")
    loopback = [x509.DNSName("localhost"), x509.IPAddress(ip_address("127.0.0.1"))]
    authority = (
        _certificate(authority_name, authority_key, issuer=authority_name)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(signs_certificates=True), critical=True)
        .sign(authority_key, hashes.SHA256())
    )
    leaf = (
        _certificate(name, key, issuer=authority_name)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(signs_certificates=False), critical=True)
        .add_extension(x509.SubjectAlternativeName(loopback), critical=False)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(authority_key.public_key()), critical=False
        )
        .sign(authority_key, hashes.SHA256())
    )
    written = Certificates(
        certificate=folder / "certificate.pem", key=folder / "key.pem", bundle=folder / "bundle.pem"
    )
    written.certificate.write_bytes(leaf.public_bytes(Encoding.PEM))
    written.key.touch(mode=0o600)
    written.key.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    trusted = [path.read_bytes().strip() for path in _trusted_already(environment)]
    written.bundle.write_bytes(b"\n".join([authority.public_bytes(Encoding.PEM), *trusted]) + b"\n")
    return written


def _trusted_already(environment: Mapping[str, str]) -> list[Path]:
    """Return the bundles that the environment names, or else the system's, or else the one of botocore."""
    named = {Path(environment[name]) for name in BUNDLE_VARIABLES if environment.get(name)}
    if found := sorted(path for path in named if path.is_file()):
        return found
    defaults = ssl.get_default_verify_paths()
    for path in (defaults.cafile, defaults.openssl_cafile, DEFAULT_CA_BUNDLE):
        if path and os.path.isfile(path):  # noqa: PTH113 # they are strings or None
            return [Path(path)]
    return []


def _name(common: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common)])


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _certificate(
    subject: x509.Name, key: ec.EllipticCurvePrivateKey, *, issuer: x509.Name
) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=_DAYS))
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )
