"""Credentials that boto3 finds for the stores."""

import json
import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from pixel_gather.io.store.s3_credentials import find_credentials


def test_credentials_are_not_used_after_they_have_expired(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """boto3 renews credentials a quarter of an hour before their end, if it is asked then."""
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    end = datetime.now(UTC) + timedelta(minutes=16)
    told = {"Version": 1, "AccessKeyId": "ours", "SecretAccessKey": "secret", "SessionToken": "token"}
    (tmp_path / "told.json").write_text(json.dumps(told | {"Expiration": end.isoformat()}))
    (tmp_path / "config").write_text(f"[profile some]\ncredential_process = cat {tmp_path}/told.json\n")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))

    found = find_credentials("some")()

    assert found["access_key_id"] == "ours"
    assert found["expires_at"] < end
