"""The rules are valid, do what their unit tests say, and name only what workers export."""

import os
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml
from deploy.monitoring.prometheus_server import Binaries
from deploy.monitoring.queries import (
    RULE_TESTS,
    RULES,
    Place,
    alerts,
    faults,
    rule_expressions,
)

SEVERITIES = {"critical", "warning", "info"}


def promtool(binaries: Binaries, *arguments: object) -> subprocess.CompletedProcess[str]:
    """How it ended, and what it said."""
    command = [str(binaries.promtool), *map(str, arguments)]
    # Its garbage is not worth a quarter of its time.
    environment = {**os.environ, "GOGC": "1000"}
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


@cache
def alerts_of(file: Path) -> list[dict[str, Any]]:
    """The alerts of one file."""
    groups = yaml.safe_load(file.read_text(encoding="utf-8"))["groups"]
    return [rule for group in groups for rule in group["rules"] if "alert" in rule]


@cache
def unit_tests() -> list[dict[str, Any]]:
    """The alert_rule_test entries of all unit tests."""
    files = [yaml.safe_load(path.read_text(encoding="utf-8")) for path in RULE_TESTS]
    return [case for file in files for test in file["tests"] for case in test["alert_rule_test"]]


def test_promtool_accepts_the_rules(binaries: Binaries) -> None:
    """Prometheus would load the files."""
    done = promtool(binaries, "check", "rules", "--lint=all", "--lint-fatal", *RULES)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_unit_tests_of_the_rules_pass(binaries: Binaries) -> None:
    """Every alert fires when it should, with the words it should, and not before or beside it."""
    done = promtool(binaries, "test", "rules", *RULE_TESTS)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("alert", alerts(), ids=lambda alert: alert["alert"])
class TestAlerts:
    """What each alert must have."""

    def test_it_has_unit_tests(self, alert: dict[str, Any]) -> None:
        """One in which it fires with one exact text, one in which it is quiet beside it, one in which all is well."""
        cases = [case for case in unit_tests() if case["alertname"] == alert["alert"]]
        firing = [case for case in cases if case["exp_alerts"]]
        assert firing
        assert len(cases) - len(firing) >= 2
        for case in firing:
            assert set(case["exp_alerts"][0]["exp_annotations"]) == set(alert["annotations"])

    def test_it_does_not_flutter(self, alert: dict[str, Any]) -> None:
        """What comes and goes within minutes is one alert, of which people are told once; news are no state."""
        kept = {"critical": "5m", "warning": "15m", "info": None}[alert["labels"]["severity"]]
        assert alert.get("keep_firing_for") == kept

    def test_it_wakes_somebody_only_for_what_cannot_wait(self, alert: dict[str, Any]) -> None:
        """Critical is what stops predictions, or is about to; how good they are is looked at in working hours."""
        files = {each["alert"]: path.stem for path in RULES for each in alerts_of(path)}
        assert alert["labels"]["severity"] != "critical" or files[alert["alert"]] != "model"

    def test_it_tells_what_who_and_how_bad(self, alert: dict[str, Any]) -> None:
        """Whom to wake, what it is about, and numbers: a page without them sends people searching."""
        assert set(alert["annotations"]) == {"summary", "description", "runbook_url"}
        assert set(alert["labels"]) == {"severity"}
        assert alert["labels"]["severity"] in SEVERITIES
        said = alert["annotations"]["summary"] + alert["annotations"]["description"]
        assert "{{ $labels.job }}" in said
        assert "$value" in said or alert["alert"] in {"StreamAppleLoopStuck", "StreamAppleBrokersUnreachable"}


@pytest.mark.parametrize("place", rule_expressions(), ids=lambda place: place.where)
def test_rules_name_what_exists(place: Place) -> None:
    """Every series, label and closed label value is one that workers export or that is recorded."""
    assert faults(place) == []


@pytest.mark.parametrize(
    "expression",
    [
        "stream_apple_lag_second",
        'stream_apple_lag_seconds{partitio="0"}',
        'stream_apple_progressive_loss{span="last"}',
        'stream_apple_partition_state{state=~"live|dead"}',
        "sum by (resaon) (rate(stream_apple_dead_letters_total[5m]))",
        "rate(stream_apple_commit_seconds[5m])",
        "1 - job:stream_apple_examples:rate10m",
    ],
)
def test_names_that_do_not_exist_are_found(expression: str) -> None:
    """A misspelt metric, label, label value or record is seen wherever it stands."""
    assert len(faults(Place("here", expression))) == 1
