"""The composition root of `stream-apple inspect`: models from a running worker, from Kafka, or from a file."""

import json
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from stream_apple.adapters.kafka.log_reader import LOST_OFFSETS, KafkaLogs
from stream_apple.app.model_factories import onlooker_factory, settings_of
from stream_apple.app.model_files import open_model_file, write_model_file
from stream_apple.app.other_settings import differing_settings
from stream_apple.config import Config
from stream_apple.errors import BrokerError, ConfigurationError, SnapshotError
from stream_apple.monitoring.inspection import ModelView, plain, view_model
from stream_apple.monitoring.merging_view import MergingView, newest_merge, view_merging
from stream_apple.monitoring.name_search import newest_names
from stream_apple.records.message.feature_names import Names
from stream_apple.stream.model.partition_model import PartitionModel
from stream_apple.stream.positions.lineage import STARTED_FROM, OtherSettingsError, Provenance, SnapshotPointer
from stream_apple.stream.snapshots.model_file import model_file_of
from stream_apple.stream.snapshots.store import SnapshotStore
from stream_apple.untrusted import MalformedError, from_json

_TIMEOUT_S = 30.0
_MOST_BYTES = 64 << 20  # of an answer: the address may be of any server
_OWN_TIMEOUT_S = 3.0  # for this configuration's worker, which may not be running
_SECTIONS = {"learner", "epochs", "limits", "input", "output"}

# A proxy that the environment names is for addresses outside, and a worker is inside.
_opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))

Facts = dict[str, Any]


class NoSnapshotError(ConfigurationError):
    """A group has no snapshot of the requested partitions."""


class Inspected(NamedTuple):
    """A model and its view, with all that saving it needs; `merging` is None where models are not merged."""

    model: PartitionModel
    view: ModelView
    names: Names
    pointer: SnapshotPointer
    merging: MergingView | None = None

    def facts(self, top: int) -> Facts:
        """Return all that is to be shown, with at most `top` of each kind."""
        facts = self.view.facts(top)
        return facts if self.merging is None else {**facts, "merging": plain(self.merging)}


def from_worker(url: str, partitions: Sequence[int], top: int) -> Iterator[Facts]:
    """Yield views of the models that the worker at `url` has now, of these partitions, or of all if none is given.

    BrokerError if no worker answers, ConfigurationError if it has no such partition, or another server answers.
    """
    base = url.rstrip("/")
    if urllib.parse.urlsplit(base).scheme not in {"http", "https"}:
        raise ConfigurationError(f"expected the address of a worker, such as http://localhost:9400, found {url!r}")
    numbers = partitions or [part["partition"] for part in _ask(base, "/status").get("partitions", [])]
    if not numbers:
        raise ConfigurationError(f"{base}: expected a worker that has partitions, found that it has none at the moment")
    for number in numbers:
        yield _ask(base, f"/model?partition={number}&top={top}")


def from_own_worker(config: Config, partitions: Sequence[int], top: int, instead: NoSnapshotError) -> Iterator[Facts]:
    """Yield views of the models of this configuration's worker on this machine, as there is no snapshot yet.

    NoSnapshotError if there is no such worker; its text begins with that of `instead`.
    """
    url = config.http.address().rstrip("/")
    if not config.http.port:
        raise instead
    try:
        about = _ask(url, "/status", _OWN_TIMEOUT_S).get("about", {})
    except (BrokerError, ConfigurationError) as error:
        raise NoSnapshotError(f"{instead}; and no worker answers at {url}: {error}") from error
    expected, found = (config.worker.group, config.topics.examples), (about.get("group"), about.get("topic"))
    if found != expected:
        raise NoSnapshotError(
            f"{instead}; and the worker at {url} is of group {found[0]} on topic {found[1]}, not of {expected[0]} on "
            f"{expected[1]}"
        )
    yield from from_worker(url, partitions, top)


def from_topic(config: Config, partitions: Sequence[int], top: int) -> Iterator[Inspected]:
    """Yield the newest snapshots of these partitions, or of all that have one.

    NoSnapshotError if there is none, SnapshotError if one is damaged.
    """
    provenance = Provenance.of(config)
    with closing(KafkaLogs(config)) as logs:
        numbers = logs.chosen(partitions)
        store = SnapshotStore(logs, provenance, onlooker_factory(config))
        decoder = settings_of(config).decoder()
        try:
            newest = None if provenance.merging is None else newest_merge(logs, provenance)
        except OtherSettingsError as error:
            raise _of_other_settings(config, store, 0, error) from error
        found, untold = False, None
        for number, committed in sorted(logs.committed_now(numbers).items()):
            if committed is None:
                continue
            try:
                metadata, model, fault = store.newest(number, committed)
            except OtherSettingsError as error:
                told = _of_other_settings(config, store, number, error)
                if error.noted.snapshot is not None:
                    raise told from error
                untold = untold or told  # the snapshot of another partition may tell what differs
                continue
            if fault is not None:
                raise SnapshotError(str(fault)) from fault
            if model is None or metadata.snapshot is None:
                continue
            found = True
            names = newest_names(logs, model, committed.offset, decoder, top)
            view = view_model(model, names, top, metadata.snapshot)
            yield Inspected(model, view, names, metadata.snapshot, view_merging(metadata, newest))
        if untold is not None:
            raise untold
        if not found:
            raise NoSnapshotError(
                f"expected a snapshot of group {provenance.group} in {provenance.topics.models}, found none of "
                f"{'these partitions' if partitions else 'any partition'}: one is taken every "
                f"worker.snapshot_interval, and when a worker stops, or {LOST_OFFSETS}"
            )


def _of_other_settings(
    config: Config, store: SnapshotStore, number: int, error: OtherSettingsError
) -> ConfigurationError:
    """Return the error with the settings that differ; if no snapshot tells them, it says what would."""
    lineage, pointer = error.noted.lineage, error.noted.snapshot
    model = f"the model of {config.topics.examples}-{number} in group {config.worker.group}"
    told = f"{model} was made with other settings than these"
    if pointer is None:
        return ConfigurationError(
            f"{told}; only a snapshot tells which, and there is none yet: start a worker in the version and with the "
            f"settings that made the model, and stop it, as it takes a snapshot when it stops"
        )
    manifest = store.manifest(number, pointer)
    if manifest is None:
        return ConfigurationError(f"{told}; only its snapshot tells which, and can't be read in {config.topics.models}")
    differing = differing_settings(config, number, lineage, manifest)
    if (error.noted.merge is not None) != config.merging:
        # The learner's defaults differ with it: who set these alone would be refused.
        noted, here = ("off", "average") if config.merging else ("average", "off")
        differing = f"merge.mode is {noted!r} in the model and {here!r} here, {differing}"
    return ConfigurationError(
        f"{told}: {differing}. Nothing is wrong with the model: to see it, give `inspect` the configuration "
        f"of the group's workers"
    )


def from_file(path: Path, top: int) -> Facts:
    """Return the view of a saved model, and what it was merged from; it raises what `open_model_file` does."""
    opened = open_model_file(path)
    # A forged file with matching digests may hold any numbers.
    with np.errstate(all="ignore"):
        facts = view_model(opened.model, opened.names(), top, opened.saved.pointer).facts(top)
    made_of = [each._asdict() for each in opened.saved.merged_from]
    return facts | ({"merged_from": made_of} if made_of else {})


def to_file(path: Path, config: Config, found: Inspected) -> None:
    """Save a model for `from_file`; ConfigurationError if it can't be written."""
    identity = Provenance.of(config).settings
    settings = config.model_dump(mode="json", include=_SECTIONS) | {"registry": bool(config.registry)}
    settings |= {name: identity[name] for name in (STARTED_FROM,) if name in identity}
    content = model_file_of(found.model, config.worker.group, settings, found.pointer, found.names)
    write_model_file(path, content)


def _ask(base: str, path: str, timeout_s: float = _TIMEOUT_S) -> Facts:
    try:
        with _opener.open(base + path, timeout=timeout_s) as reply:
            answer = reply.read(_MOST_BYTES)
    except urllib.error.HTTPError as error:
        with error:
            reason = _reason(error.read()) or f"expected a worker, found another kind of server: status {error.code}"
        raise ConfigurationError(f"{base}{path}: {reason}") from error
    except (OSError, ValueError) as error:
        told = getattr(error, "reason", error)
        raise BrokerError(f"{base}: expected a worker that answers within {timeout_s:g} s, found: {told}") from error
    try:
        return from_json(Facts, answer)
    except MalformedError as error:
        raise ConfigurationError(f"{base}{path}: expected JSON of a worker, found another kind of server") from error


def _reason(body: bytes) -> str:
    try:
        return str(json.loads(body)["error"])
    except (ValueError, KeyError, TypeError):
        return ""
