"""No test reads or writes the home of the user who runs it, nor the user's cache."""

import os
import pwd
import subprocess
import sys
from pathlib import Path

_TELL = """\
import os
from pathlib import Path
print(Path.home(), *(os.environ.get(name) for name in ("XDG_CACHE_HOME", "UV_CACHE_DIR")), sep="\\n")
"""


def test_home_and_cache_are_the_tests_own_in_child_processes_too() -> None:
    """A child process has the same home. Only uv keeps its cache, as it would fetch every package again."""
    users = Path(pwd.getpwuid(os.getuid()).pw_dir)

    words = [sys.executable, "-c", _TELL]
    told = subprocess.run(words, capture_output=True, text=True, check=True).stdout  # noqa: S603 # the lines above
    home, cache, uv_cache = map(Path, told.splitlines())

    assert home == Path.home() != users
    assert cache.is_relative_to(home)
    assert not uv_cache.is_relative_to(home)
