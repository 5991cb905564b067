"""Parts of a job on the disk, after the process was killed."""

from pathlib import Path

from pixel_gather.tables.part_folder import NO_LINES, ImageRecord, PartFolder


def record(number: int) -> ImageRecord:
    """Return an image without lines."""
    return ImageRecord(number=number, scene=f"scene {number}", time_us=None, hrefs=())


def test_a_record_after_one_that_was_cut_off_is_whole(tmp_path: Path) -> None:
    """The process was killed while it wrote. The next one does that image anew, and is killed later.

    Another job has nothing of it.
    """
    folder = PartFolder.open_(tmp_path / "job", digest="of this job")
    for number in (0, 1):
        folder.write(record(number), NO_LINES)
    (log,) = (each for each in folder.path.iterdir() if b"scene 1" in each.read_bytes())
    log.write_bytes(log.read_bytes()[:-9])

    again = PartFolder.open_(folder.path, digest="of this job")
    assert list(again.records) == [0]
    for number in (2, 1):
        again.write(record(number), NO_LINES)

    assert PartFolder.open_(folder.path, digest="of this job").records == {n: record(n) for n in range(3)}
    assert PartFolder.open_(folder.path, digest="of another job").records == {}
