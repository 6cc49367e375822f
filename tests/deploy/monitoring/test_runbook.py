"""The runbook has an entry for each alert, and what it sends people to is there under that name."""

import re
from pathlib import Path
from typing import Any

import pytest
from deploy.monitoring.queries import RULES, RUNBOOK, alerts, panels

import stream_apple
from stream_apple.cli import SUMMARIES
from stream_apple.config import Config

PACKAGE = Path(stream_apple.__file__).parent


@pytest.mark.parametrize("alert", alerts(), ids=lambda alert: alert["alert"])
def test_its_runbook_entry_is_there(alert: dict[str, Any]) -> None:
    """The link leads to a section of that name, which says where to look and what to do."""
    page, _, anchor = alert["annotations"]["runbook_url"].partition("#")
    assert page.endswith("deploy/monitoring/runbook.md")
    assert anchor == alert["alert"].lower()
    sections = re.split(r"^### ", RUNBOOK.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]
    (section,) = [each for each in sections if each.splitlines()[0] == alert["alert"]]
    assert "*Do:*" in section
    assert "*Look:*" in section or re.search(r"\bAs StreamApple", section)


def test_the_runbook_has_no_entry_without_an_alert() -> None:
    """Each section, and each alert that the text mentions, is one of the rules."""
    names = re.findall(r"\bStreamApple\w+", RUNBOOK.read_text(encoding="utf-8"))
    assert set(names) == {alert["alert"] for alert in alerts()}


def test_settings_that_it_names_exist() -> None:
    """So do those that the alerts name: who is told to change one must find it."""
    text = "".join(path.read_text(encoding="utf-8") for path in (RUNBOOK, *RULES))
    sections = {name: field.annotation for name, field in Config.model_fields.items() if name != "kafka"}
    settings = re.findall(rf"(?<![\w.-])({'|'.join(sections)})\.([a-z]\w+)", text)
    assert len(settings) > 10
    assert [name for name in settings if name[1] not in getattr(sections[name[0]], "model_fields", {})] == []


def test_panels_commands_and_events_that_it_names_exist() -> None:
    """Bold names are panels of the dashboard; commands are ours; events are logged somewhere."""
    text = re.sub(r"\s+", " ", RUNBOOK.read_text(encoding="utf-8"))
    named = set(re.findall(r"\*\*([^*]+)\*\*", text))
    commands = set(re.findall(r"`stream-apple (\w+)", text))
    events = set(re.findall(r"`([a-z]+(?:_[a-z]+)+)`", text))
    assert len(named) > 20
    assert named <= {panel["title"] for panel in panels()}
    assert {"check", "verify"} <= commands <= set(SUMMARIES)
    source = "".join(path.read_text(encoding="utf-8") for path in PACKAGE.rglob("*.py"))
    assert {"transaction_aborted", "gap_accepted"} <= events
    assert {event for event in events if f'"{event}"' not in source} == set()
