"""Where a deployment is reached."""

from pixel_gather_emulator.deploy import emulated_api_url


def test_emulated_api_is_on_the_emulators_own_port() -> None:
    """By path, because names below localhost do not resolve everywhere."""
    url = emulated_api_url("https://abc123.execute-api.us-east-1.amazonaws.com/v1/", "https://127.0.0.1:4000")

    assert url == "https://127.0.0.1:4000/_aws/execute-api/abc123/v1"
