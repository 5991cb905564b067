"""Leaves nothing behind: of runs that fail or are cancelled before they write, and of what is committed."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from pixel_gather.core.plan.cube_plan import version_of_claim
from pixel_gather.io.cube.control_files import ObjectControlStore
from pixel_gather.io.store.object_store import split_href


@contextmanager
def folders_removed_on_failure(place: str) -> Iterator[None]:
    """Remove new local folders that are still empty if the work inside fails."""
    root, path = split_href(place)
    folder = Path(f"/{path}")
    new = [each for each in (folder, *folder.parents) if not each.exists()] if root == "file://" else []
    try:
        yield
    except BaseException:
        for each in new:
            with suppress(OSError):  # it was not made, or is no longer empty
                each.rmdir()
        raise


async def clear_committed(controls: ObjectControlStore, version: int) -> None:
    """Remove the control files of what is committed, also of calls that were killed before they could.

    Those of later versions stay: an append may be at work.
    """
    await controls.clear(lambda key: version_of_claim(key.partition("/")[0]) <= version)
