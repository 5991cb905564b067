"""The notebook of the gallery that shows the service runs on the deployed stack."""

from pathlib import Path

import pytest

from pixel_gather_emulator.deploy import DeployedStack
from run_gallery import GALLERY, ON_AWS
from support.notebooks import run_code

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


@pytest.mark.long
def test_the_notebook_on_aws_runs(deployment: DeployedStack, tmp_path: Path) -> None:
    """It asserts that the cube has the pixels of a gather in process."""
    run_code(GALLERY / f"{ON_AWS}.ipynb", tmp_path, deployment.environment)
