"""A certificate authority of one run, which signs for 127.0.0.1 and is trusted by whoever is told to."""

import datetime as dt
import ipaddress
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

AUTHORITY: Final = "authority.pem"
SERVER: Final = "server.pem"
_DAY: Final = dt.timedelta(days=1)
_MAY_SIGN: Final = x509.KeyUsage(
    key_cert_sign=True,
    digital_signature=False,
    content_commitment=False,
    key_encipherment=False,
    data_encipherment=False,
    key_agreement=False,
    crl_sign=False,
    encipher_only=False,
    decipher_only=False,
)


def make_certificates(folder: Path) -> None:
    """Write ``authority.pem``, and ``server.pem`` with its private key; both are good for a day."""
    authority_key, server_key = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
    authority = _sign(
        "benchmark authority",
        authority_key,
        by=authority_key,
        extensions=[x509.BasicConstraints(ca=True, path_length=None), _MAY_SIGN],
    )
    server = _sign(
        "127.0.0.1",
        server_key,
        by=authority_key,
        extensions=[
            x509.BasicConstraints(ca=False, path_length=None),
            x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]),
        ],
    )
    key = server_key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    (folder / AUTHORITY).write_bytes(authority.public_bytes(Encoding.PEM))
    (folder / SERVER).write_bytes(key + server.public_bytes(Encoding.PEM))


def trusting(authority: Path) -> dict[str, str]:
    """Return the environment in which clients trust this authority, and no other.

    obstore and Python's own ssl read the first. GDAL as rasterio's wheels bring it reads the second only:
    rasterio sets it to certifi's list where it is not set.
    """
    return {"SSL_CERT_FILE": str(authority), "GDAL_CURL_CA_BUNDLE": str(authority)}


def _sign(
    name: str,
    key: ec.EllipticCurvePrivateKey,
    *,
    by: ec.EllipticCurvePrivateKey,
    extensions: Sequence[x509.ExtensionType],
) -> x509.Certificate:
    now = dt.datetime.now(dt.UTC)
    builder = (
        x509.CertificateBuilder()
        .subject_name(_named(name))
        .issuer_name(_named("benchmark authority"))
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _DAY)
        .not_valid_after(now + _DAY)
    )
    keys = (
        x509.SubjectKeyIdentifier.from_public_key(key.public_key()),
        x509.AuthorityKeyIdentifier.from_issuer_public_key(by.public_key()),
    )  # Python 3.13 verifies strictly and asks for both
    for extension in (*extensions, *keys):
        builder = builder.add_extension(
            extension, critical=isinstance(extension, (x509.BasicConstraints, x509.KeyUsage))
        )
    return builder.sign(by, hashes.SHA256())


def _named(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
