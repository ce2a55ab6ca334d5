"""Finds the versions of a model, loads the highest, and swaps versions without losing a request."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from keras_bert.server import check_versions, complete_versions, is_saved_model
from keras_bert.server.errors import Code, ServingError, invalid_argument, not_found, without_directories
from keras_bert.server.model import Model, ModelSpec

POLL_SECONDS = 1.0
SIGNATURES = "signature_def"  # the only kind of metadata

_log = logging.getLogger(__name__)

_Listing = tuple[tuple[str, int, int], ...]  # the name, size and time of each file in a directory


@dataclass
class VersionStatus:
    """The status of a version, for GetModelStatus."""

    phase: str  # LOADING, AVAILABLE, UNLOADING or END
    error: ServingError | None = None  # the error of a failed load

    def entry(self, number: int) -> dict[str, Any]:
        """Builds the JSON of TF Serving's message ModelVersionStatus."""
        code, message = (Code.OK, "") if self.error is None else (self.error.code, self.error.message)
        status = {"error_code": code.name, "error_message": message}
        return {"version": str(number), "state": self.phase, "status": status}


@dataclass(eq=False)
class LoadedVersion:
    """A version in memory."""

    number: int
    model: Model
    users: int = 0  # requests in progress
    since: float = field(default_factory=time.time)


class Versions:
    """The versions `<directory>/<version>/` of one model; names that are not numbers are ignored."""

    def __init__(self, directory: Path, name: str) -> None:
        self.name = name
        self.statuses: dict[int, VersionStatus] = {}  # of all versions in memory, and of failed ones still on disk
        self.current: LoadedVersion | None = None  # the served one
        self._directory = directory
        self._failed_listings: dict[int, _Listing] = {}
        self._retiring: set[asyncio.Task[None]] = set()

    async def load_first(self) -> int:
        """Loads the highest loadable version, and returns its number. Raises FileNotFoundError if there is none."""
        check_versions(self._directory)
        for number, path in sorted(complete_versions(self._directory).items(), reverse=True):
            await self._load(number, path)
            if self.current is not None:
                return number
        errors = "; ".join(f"version {number}: {status.error}" for number, status in self.statuses.items())
        raise FileNotFoundError(f"{self._directory} has no version that can be loaded. {errors}")

    async def watch(self) -> None:
        """Looks every second for the highest version, and swaps to it: a new one, or a lower one if the old is gone."""
        old_listings: dict[int, _Listing] = {}
        last_error = ""
        while True:
            await asyncio.sleep(POLL_SECONDS)
            try:
                old_listings = await self._load_highest(old_listings)
                error = ""
            except Exception as failure:
                error = str(failure) or type(failure).__name__
            if error and error != last_error:
                _log.error("%s cannot be read; the loaded version stays: %s", self._directory, error)
            last_error = error

    async def close(self) -> None:
        """Unloads all versions after their requests are answered."""
        if self.current is not None:
            self._retire(self.current)
            self.current = None
        if self._retiring:
            await asyncio.wait(self._retiring)

    @contextlib.contextmanager
    def lease(self, spec: ModelSpec) -> Iterator[LoadedVersion]:
        """Finds the requested version, by default the served one, and keeps it loaded inside the block."""
        requested, version = self._requested_version(spec), self.current
        if version is None or requested not in (None, version.number):
            if requested is None:
                raise not_found(f"no version of the model {self.name} is served", field="model")
            raise not_found(f"version {requested} of the model {self.name} is not served", field="model")
        version.users += 1
        try:
            yield version
        finally:
            version.users -= 1

    def metadata(self, spec: ModelSpec) -> dict[str, Any]:
        """Builds the response to GetModelMetadata, a version's signatures, as JSON of TF Serving's message."""
        with self.lease(spec) as version:
            asked = {"name": self.name, "version": str(version.number), "signature_name": ""}
            return {"model_spec": asked, "metadata": {SIGNATURES: version.model.metadata()}}

    def status(self, spec: ModelSpec) -> dict[str, Any]:
        """Builds the response to GetModelStatus, of the requested version, by default all, highest first, as JSON."""
        requested = self._requested_version(spec)
        if requested is not None and requested not in self.statuses:
            raise not_found(f"the model {self.name} has no version {requested}")
        numbers = sorted(self.statuses, reverse=True) if requested is None else [requested]
        return {"model_version_status": [self.statuses[number].entry(number) for number in numbers]}

    def _requested_version(self, spec: ModelSpec) -> int | None:
        """Reads the version number of a request; None: any. Raises ServingError for a label."""
        if spec.label is not None:
            raise invalid_argument(f"no version has the label {spec.label}: give a number, or none")
        return spec.version

    async def _load_highest(self, old_listings: dict[int, _Listing]) -> dict[int, _Listing]:
        """Loads the highest version if it is new and completely copied. Returns the listings of all versions."""
        paths = complete_versions(self._directory)
        for number in self.statuses.keys() - paths.keys():
            if self.statuses[number].phase == "END":
                del self.statuses[number]
                self._failed_listings.pop(number, None)
        listings = {number: _list_files(path) for number, path in paths.items()}
        loadable = [number for number, listing in listings.items() if self._failed_listings.get(number) != listing]
        highest = max(loadable, default=None)
        served = None if self.current is None else self.current.number
        if highest is None or highest == served:
            return listings
        if old_listings.get(highest) == listings[highest]:
            await self._load(highest, paths[highest])
        return listings

    async def _load(self, number: int, path: Path) -> None:
        self.statuses[number] = status = VersionStatus("LOADING")
        listing = _list_files(path)
        _log.info("%s version %d: loading", self.name, number)
        try:
            model = await asyncio.to_thread(_load_and_warm_up, path, self.name, number)
        except Exception as error:
            status.phase = "END"
            first_line = str(error).partition("\n")[0] or type(error).__name__
            code = error.code if isinstance(error, ServingError) else Code.INTERNAL
            status.error = ServingError(code, without_directories(first_line, path))
            self._failed_listings[number] = listing
            note = f"; version {self.current.number} stays" if self.current else ""
            _log.error("%s version %d: not loaded: %s%s", self.name, number, first_line, note)
            return
        self._failed_listings.pop(number, None)
        old_version, self.current = self.current, LoadedVersion(number, model)
        status.phase = "AVAILABLE"
        _log.info("%s version %d: serving", self.name, number)
        if old_version is not None:
            self._retire(old_version)

    def _retire(self, version: LoadedVersion) -> None:
        task = asyncio.get_running_loop().create_task(self._unload(version))
        self._retiring.add(task)
        task.add_done_callback(self._retiring.discard)

    async def _unload(self, version: LoadedVersion) -> None:
        number, status = version.number, self.statuses[version.number]
        status.phase = "UNLOADING"
        while version.users:
            await asyncio.sleep(0.05)
        await asyncio.to_thread(version.model.close)
        status.phase = "END"
        del version  # and with it the model
        gc.collect()  # graphs have reference cycles
        _log.info("%s version %d: unloaded", self.name, number)


class Models:
    """The served models, by name; `limits` are those that text-embeddings-inference tells its clients."""

    def __init__(self, directories: Mapping[str, Path], limits: Mapping[str, int]) -> None:
        self.limits = limits
        self.by_name = {name: Versions(directory, name) for name, directory in directories.items()}

    async def load_first(self) -> list[str]:
        """Loads a version of each model, and returns their names with these versions.

        A model that has none that can be loaded is watched. Raises FileNotFoundError if all are such.
        """
        served, errors = [], []
        for each in self.by_name.values():
            try:
                served.append(f"{each.name} version {await each.load_first()}")
            except FileNotFoundError as error:
                errors.append(error)
        if not served:
            raise errors[0]
        for error in errors:
            _log.error("%s; the other models are served", error)
        return served

    def find(self, name: str) -> Versions:
        """Finds a model by its name in a request. Raises ServingError if it is not served."""
        if not name:
            raise invalid_argument("the request names no model", field="model")
        if name not in self.by_name:
            raise not_found(f"no model {name}; {', '.join(self.by_name)} is served", field="model")
        return self.by_name[name]

    async def close(self) -> None:
        for versions in self.by_name.values():
            await versions.close()


def _open(path: Path, name: str) -> Model:
    if is_saved_model(path):
        from keras_bert.server import saved_model  # imports TensorFlow, which exports do without

        return saved_model.SavedModel(path, name)
    from keras_bert.server import exported

    return exported.Export(path, name)


def _load_and_warm_up(path: Path, name: str, number: int) -> Model:
    model = _open(path, name)
    try:
        count = model.warm_up()
        model.measure()
    except BaseException:
        model.close()
        raise
    _log.info("%s version %d: loaded, %d warm-up requests answered", name, number, count)
    return model


def _list_files(directory: Path) -> _Listing:
    entries = []
    for path in sorted(directory.rglob("*")):
        with contextlib.suppress(FileNotFoundError):  # removed since
            status = path.stat()
            entries.append((str(path.relative_to(directory)), status.st_size, status.st_mtime_ns))
    return tuple(entries)
