"""Tests the limits that a child sets on itself."""

import json
import subprocess
import sys
from typing import Final

_LIMITED: Final = """
import json, resource
from pixel_gather.io import limit_child

resource.setrlimit(resource.RLIMIT_CPU, (900, 1000))
limits = []
for seconds in (5, 5000):
    limit_child.limit_cpu(seconds)
    limits.append(resource.getrlimit(resource.RLIMIT_CPU))
print(json.dumps(limits))
"""


def test_limits_of_the_user_are_kept() -> None:
    """A batch system may limit its users. A process may not raise such a limit."""
    answer = subprocess.run([sys.executable, "-c", _LIMITED], check=True, capture_output=True).stdout  # noqa: S603 # a fixed program
    (soft, hard), highest = json.loads(answer)

    assert 6 <= soft <= 8
    assert hard == 1000
    assert highest == [1000, 1000]
