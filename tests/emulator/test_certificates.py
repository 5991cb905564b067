"""The emulator's certificate and the bundle that trusts it."""

import socket
import ssl
import threading
from pathlib import Path

import pytest

from pixel_gather_emulator.certificates import Certificates, write_certificates


def handshake(certificates: Certificates, *, trusted: Path, name: str) -> str | None:
    """Return the TLS version of a connection between client and server."""
    at_server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    at_server.load_cert_chain(certificates.certificate, certificates.key)
    at_client = ssl.create_default_context(cafile=str(trusted))
    here, there = socket.socketpair()
    here.settimeout(10)

    def serve() -> None:
        try:
            at_server.wrap_socket(there, server_side=True).close()
        except (ssl.SSLError, OSError):
            there.close()  # the client did not trust it

    server = threading.Thread(target=serve)
    server.start()
    try:
        with at_client.wrap_socket(here, server_hostname=name) as connected:
            return connected.version()
    finally:
        here.close()
        server.join()


@pytest.mark.parametrize("name", ["127.0.0.1", "localhost"])
def test_bundle_trusts_the_certificate(tmp_path: Path, name: str) -> None:
    """The certificate passes all checks that Python has."""
    written = write_certificates(tmp_path, {})

    assert handshake(written, trusted=written.bundle, name=name) == "TLSv1.3"


def test_certificate_is_for_loopback_alone(tmp_path: Path) -> None:
    """The certificate is not valid for any other host."""
    written = write_certificates(tmp_path, {})

    with pytest.raises(ssl.SSLCertVerificationError, match="Hostname mismatch"):
        handshake(written, trusted=written.bundle, name="s3.amazonaws.com")


def test_bundle_holds_what_the_environment_trusts_already(tmp_path: Path) -> None:
    """The environment's own authorities stay trusted. Each bundle is added once."""
    for name in ("own", "other"):
        (tmp_path / name).mkdir()
    own, other = (write_certificates(tmp_path / name, {}) for name in ("own", "other"))
    (tmp_path / "own.pem").write_bytes(own.bundle.read_bytes())

    written = write_certificates(
        tmp_path, {"SSL_CERT_FILE": str(tmp_path / "own.pem"), "AWS_CA_BUNDLE": str(tmp_path / "gone.pem")}
    )

    assert handshake(own, trusted=written.bundle, name="localhost") is not None
    assert written.bundle.read_bytes().count(b"BEGIN") == 1 + own.bundle.read_bytes().count(b"BEGIN")
    with pytest.raises(ssl.SSLCertVerificationError):
        handshake(other, trusted=written.bundle, name="localhost")


def test_key_is_for_its_owner_only(tmp_path: Path) -> None:
    """Other users of the machine cannot read the key."""
    written = write_certificates(tmp_path, {})

    assert written.key.stat().st_mode & 0o077 == 0
