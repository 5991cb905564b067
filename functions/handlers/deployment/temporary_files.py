"""A folder in Lambda's /tmp for the temporary files of this process. It is emptied first.

Lambda kills a function that takes too long or too much memory. The next process gets the same /tmp. A few
lists or tables of killed processes would fill it.
"""

import os
from pathlib import Path
from typing import Final

_FOLDER: Final = Path("/tmp/pixel-gather")  # noqa: S108 # an environment of Lambda has one process
_LAMBDAS_ROOT: Final = "/var/task"


def take_folder(folder: Path = _FOLDER) -> None:
    """Empty the folder, and have temporary files written there. Outside Lambda, do nothing.

    ``tempfile`` and SQLite read ``TMPDIR`` when they are first used. So call this before.
    """
    if os.environ.get("LAMBDA_TASK_ROOT") != _LAMBDAS_ROOT:
        return
    if folder.exists():
        import shutil  # noqa: PLC0415 # seldom needed

        shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(exist_ok=True)
    os.environ["TMPDIR"] = str(folder)
