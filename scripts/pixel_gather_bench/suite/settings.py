"""The settings of a suite. Its folder keeps them, so that the suite can be resumed."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

import msgspec

from pixel_gather.core.errors import RequestError
from pixel_gather.io.store.object_store import StoreSettings
from pixel_gather_bench.interleaving import rounds
from pixel_gather_bench.suite.job import Configuration, EngineName, Job
from pixel_gather_bench.suite.target import Target

type BestBy = Literal["time", "throughput"]

_SETTINGS: Final = "settings.json"
_LIST: Final = "list.txt"


@dataclass(frozen=True, slots=True, kw_only=True)
class SuiteSettings:
    """What the runs of one suite have in common, and which runs there are."""

    engines: tuple[EngineName, ...]
    concurrencies: tuple[int | None, ...]
    """None lets the engine find the number while it reads, if it can."""

    times: int
    target: Target
    stores: StoreSettings
    warm_up: bool
    bucket_warm_up: bool
    """Whether all tiles are read once, untimed, before the first run."""

    header_nbytes: int | None
    keep: bool
    best_by: BestBy
    machine: dict[str, Any]
    """The machine on which the suite began. Each record has its own."""

    def configurations(self) -> Iterator[Configuration]:
        """Yield each engine at each concurrency, engines in turn."""
        for concurrency in self.concurrencies:
            for engine in self.engines:
                if concurrency is not None or engine == "fast":
                    yield Configuration(engine=engine, concurrency=concurrency)

    def jobs(self, hrefs: tuple[str, ...], folder: Path) -> Iterator[Job]:
        """Yield all runs in their order, round after round."""
        for number, configuration in rounds(list(self.configurations()), self.times):
            yield self.job(configuration, number + 1, hrefs, folder)

    def job(self, configuration: Configuration, round_: int, hrefs: tuple[str, ...], folder: Path) -> Job:
        """Return one run."""
        return Job(
            configuration=configuration,
            round=round_,
            target=self.target,
            stores=self.stores,
            warm_up=self.warm_up,
            header_nbytes=self.header_nbytes,
            keep_in=str(folder.absolute() / "pixels") if self.keep else None,
            hrefs=hrefs,
        )


def write_settings(folder: Path, settings: SuiteSettings, hrefs: tuple[str, ...]) -> None:
    """Write the list and the settings of a suite."""
    (folder / _LIST).write_text("".join(f"{href}\n" for href in hrefs))
    content = msgspec.json.format(msgspec.json.encode(settings), indent=2)
    (folder / _SETTINGS).write_bytes(content + b"\n")


def read_settings(folder: Path) -> SuiteSettings:
    """Return the settings of a suite.

    Raises:
        RequestError: The folder holds no suite.
    """
    file = folder / _SETTINGS
    try:
        return msgspec.json.decode(file.read_bytes(), type=SuiteSettings)
    except FileNotFoundError as error:
        raise RequestError(
            f"it is no folder that bench LIST has made: there is no {_SETTINGS} in it", field=str(folder)
        ) from error
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise RequestError(f"it does not hold a suite's settings: {error}", field=str(file)) from error


def read_list(folder: Path) -> tuple[str, ...]:
    """Return the hrefs of a suite's list.

    Raises:
        RequestError: The list is missing or empty.
    """
    file = folder / _LIST
    try:
        hrefs = tuple(file.read_text().splitlines())
    except (OSError, UnicodeDecodeError) as error:
        raise RequestError(f"the suite's list cannot be read: {error}", field=str(file)) from error
    if not hrefs:
        raise RequestError("the suite's list is empty", field=str(file))
    return hrefs
