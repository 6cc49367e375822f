"""Every PromQL expression that the repository gives to Prometheus and Grafana, and whether what they name exists."""

import json
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import yaml
from prometheus_client import Histogram

from stream_apple.learners.apple.kernels.mixture import LATE_SHARED, SHARED
from stream_apple.learners.apple.state.weights import NAMES
from stream_apple.learners.progress.progressive_loss import PREDICTORS
from stream_apple.monitoring.comparison_metrics import COMPARISON_METRICS
from stream_apple.monitoring.definitions import METRICS
from stream_apple.monitoring.join_metrics import JOIN_METRICS
from stream_apple.monitoring.merge_metrics import MERGE_METRICS, OUTCOMES
from stream_apple.monitoring.metric import PREFIX
from stream_apple.monitoring.metrics import Metrics
from stream_apple.monitoring.serving_metrics import SERVING_METRICS
from stream_apple.records.message.reasons import Reason
from stream_apple.stream.following.replica import DigestCheck
from stream_apple.stream.merging.open_rounds import ExclusionReason
from stream_apple.stream.model.time_budget import Phase
from stream_apple.stream.partitions.state import State

MONITORING = Path(__file__).resolve().parents[3] / "deploy" / "monitoring"
RULES = sorted((MONITORING / "rules").glob("*.yaml"))
RULE_TESTS = sorted((MONITORING / "tests").glob("*.test.yaml"))
DASHBOARD = MONITORING / "dashboard.json"
RUNBOOK = MONITORING / "runbook.md"

TARGET_LABELS = {"namespace", "job", "instance"}
"""Of every series, given by whoever scrapes it."""

# Labels whose values come from a closed list.
VALUES = {
    "state": {state.value for state in State},
    "phase": {phase.value for phase in Phase},
    "reason": {reason.code for reason in Reason} | {str(reason) for reason in ExclusionReason},
    "outcome": {"learned", "unlabelled", "rejected", "replayed", *OUTCOMES, *DigestCheck},
    "direction": {"read", "written"},
    "span": {"start", "epoch", "last_epoch", "recent"},
    "result": {"committed", "aborted"},
    "event": {"assigned", "revoked", "lost"},
    "predictor": {*PREDICTORS, *NAMES, *SHARED, *LATE_SHARED},
    "change": {"added", "retired"},
    "follow": {"log", "snapshots"},
}

_MATCHER = re.compile(r'(\w+)\s*(=~|!~|!=|=)\s*"((?:[^"\\]|\\.)*)"')
_TOKEN = re.compile(
    r"""
    \b(?P<clause>by|without|on|ignoring|group_left|group_right)\s*\((?P<labels>[^)]*)\)
    | \[[^\]]*\] | \boffset\s+\w+ | [0-9][\w.]* | "(?:[^"\\]|\\.)*"
    | (?P<name>[a-zA-Z_:][\w:]*) \s* (?P<matchers>\{(?:[^}"]|"(?:[^"\\]|\\.)*")*\})? (?P<call>\(|(?=(?:by|without)\b))?
    """,
    re.VERBOSE,
)
_OPERATORS = {"and", "or", "unless", "bool"}


class Matcher(NamedTuple):
    """One condition of a selector, its value without the quotes."""

    label: str
    operator: str
    value: str


class Selector(NamedTuple):
    """A series that an expression reads."""

    name: str
    matchers: tuple[Matcher, ...]


class Place(NamedTuple):
    """An expression and where it stands."""

    where: str
    expression: str


@cache
def rules() -> list[dict[str, Any]]:
    """All recording and alert rules, each file's in its order."""
    files = [yaml.safe_load(path.read_text(encoding="utf-8")) for path in RULES]
    return [rule for file in files for group in file["groups"] for rule in group["rules"]]


def alerts() -> list[dict[str, Any]]:
    """The alert rules."""
    return [rule for rule in rules() if "alert" in rule]


def dashboard() -> dict[str, Any]:
    """The dashboard as Grafana is given it."""
    board: dict[str, Any] = json.loads(DASHBOARD.read_text(encoding="utf-8"))
    return board


def panels() -> list[dict[str, Any]]:
    """Everything that is laid out: rows, and panels, also those inside a row that is folded."""
    return [each for outer in dashboard()["panels"] for each in (outer, *outer.get("panels", []))]


def rule_expressions() -> list[Place]:
    """Of every rule."""
    return [Place(rule.get("alert") or rule["record"], rule["expr"]) for rule in rules()]


def panel_expressions() -> list[Place]:
    """Of every target of every panel."""
    return [
        Place(f"panel {panel['title']!r}, query {target['refId']}", target["expr"])
        for panel in panels()
        for target in panel.get("targets", [])
    ]


def annotation_expressions() -> list[Place]:
    """Of every annotation of the dashboard."""
    notes = dashboard()["annotations"]["list"]
    return [Place(f"annotation {note['name']!r}", note["target"]["expr"]) for note in notes]


@cache
def known_series() -> dict[str, set[str]]:
    """Names of the series that a worker or a replica exports and that the rules record, each with its labels."""
    known: dict[str, set[str]] = {}
    for row in (*METRICS, *MERGE_METRICS, *SERVING_METRICS, *JOIN_METRICS, *COMPARISON_METRICS):
        name, labels = PREFIX + row.name, {*row.labels} | TARGET_LABELS
        if row.kind is Histogram:
            known |= {f"{name}_bucket": labels | {"le"}, f"{name}_sum": labels, f"{name}_count": labels}
        else:
            known[name] = labels
    for family in Metrics().registry.collect():
        for sample in family.samples:
            known.setdefault(sample.name, {*sample.labels} | TARGET_LABELS)
    for rule in rules():
        if "record" in rule:
            # `le` is what a quantile is made of, and gone with it.
            kept = [set(labels) - {"le"} for clause, labels in clauses(rule["expr"]) if clause == "by"]
            # Without a `by`, a rule keeps the labels of what it reads, and that is recorded above it.
            known[rule["record"]] = set.union(*(kept or [known[read.name] for read in selectors(rule["expr"])]))
    return known | {"up": TARGET_LABELS, "ALERTS": {"alertname", "alertstate", "severity", "partition"} | TARGET_LABELS}


def selectors(expression: str) -> list[Selector]:
    """All series that `expression` reads, in its order."""
    return [
        Selector(token["name"], tuple(Matcher(*each) for each in _MATCHER.findall(token["matchers"] or "")))
        for token in _TOKEN.finditer(expression)
        if token["name"] and token["call"] is None and token["name"] not in _OPERATORS
    ]


def clauses(expression: str) -> Iterator[tuple[str, list[str]]]:
    """Each clause such as `by (a, b)`, with the labels that it names."""
    for token in _TOKEN.finditer(expression):
        if token["clause"]:
            yield token["clause"], [label.strip() for label in token["labels"].split(",") if label.strip()]


def faults(place: Place) -> list[str]:
    """Series, labels and label values in an expression that do not exist."""
    known, found = known_series(), []
    labels = set[str]()
    for selector in selectors(place.expression):
        if selector.name not in known:
            found.append(f"{place.where}: no series {selector.name}")
            continue
        labels |= known[selector.name]
        for matcher in selector.matchers:
            if matcher.label not in known[selector.name]:
                found.append(f"{place.where}: {selector.name} has no label {matcher.label}")
            allowed = VALUES.get(matcher.label)
            if allowed and not set(matcher.value.split("|")) <= allowed:
                found.append(f"{place.where}: {matcher.label} is never {matcher.value}")
    found += [
        f"{place.where}: {clause} ({label}) is a label of none of its series"
        for clause, named in clauses(place.expression)
        for label in named
        if label not in labels | TARGET_LABELS
    ]
    return found
