"""A folder for the temporary files of this process, without those of one that was killed.

Lambda kills a function that takes too long or too much memory, and starts it again in the same environment,
whose /tmp stays as it is. A few lists or tables that were left there would fill it for all later calls.
"""

import os
from pathlib import Path
from typing import Final

_FOLDER: Final = Path("/tmp/pixel-gather")  # noqa: S108 # an environment of Lambda has one process
_LAMBDAS_ROOT: Final = "/var/task"


def take_folder(folder: Path = _FOLDER) -> None:
    """Empty the folder, and let temporary files lie there. Elsewhere than in Lambda, do nothing.

    ``tempfile`` and SQLite look for the variable when they are first used.
    """
    if os.environ.get("LAMBDA_TASK_ROOT") != _LAMBDAS_ROOT:
        return
    if folder.exists():
        import shutil  # noqa: PLC0415 # seldom needed

        shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(exist_ok=True)
    os.environ["TMPDIR"] = str(folder)
