"""The dashboard is one that Grafana lays out as it is meant, works with any data source, and names what exists."""

import json
import re
from itertools import combinations
from typing import Any

import pytest
import yaml
from deploy.manifests import DEPLOY
from deploy.monitoring.queries import (
    DASHBOARD,
    Place,
    alerts,
    annotation_expressions,
    dashboard,
    faults,
    panel_expressions,
    panels,
    selectors,
)

WIDTH = 24
ROWS = [panel for panel in dashboard()["panels"] if panel["type"] == "row"]
PANELS = [panel for panel in panels() if panel["type"] not in {"row", "alertlist"}]
BUILT_IN = {"__rate_interval", "__interval", "__range", "__all", "__all_variables", "__url_time_range", "__value"}
NO_UNIT = {"none", ""}

# Rows that are about other processes than workers, each with the variable that chooses these.
PROCESSES = {
    "Do replicas answer?": "$replica",
    "Do examples come of impressions?": "$joiner",
    "Is the challenger better?": "$comparison",
}


def variables() -> list[dict[str, Any]]:
    """The dashboard's variables in their order."""
    found: list[dict[str, Any]] = dashboard()["templating"]["list"]
    return found


def objects(value: object) -> list[dict[str, Any]]:
    """All JSON objects in `value`, itself included."""
    if isinstance(value, dict):
        return [value, *(each for inner in value.values() for each in objects(inner))]
    return [each for inner in value for each in objects(inner)] if isinstance(value, list) else []


def test_the_file_is_in_canonical_form() -> None:
    """Two spaces, as Python writes it: a change made in Grafana shows as that change."""
    text = DASHBOARD.read_text(encoding="utf-8")
    assert text == json.dumps(json.loads(text), indent=2) + "\n"


def test_it_can_be_provisioned() -> None:
    """A uid that links can rely on, no id of some database, and a version of the schema."""
    board = dashboard()
    assert board["uid"] == "stream-apple"
    assert "id" not in board
    assert board["schemaVersion"] >= 39
    assert board["annotations"]["list"]


def test_the_data_source_is_only_known_through_the_variable() -> None:
    """Every panel, query, annotation and variable asks the data source that the viewer has chosen."""
    named = [each["datasource"] for each in objects(dashboard()) if "datasource" in each]
    assert len(named) > 2 * len(PANELS)
    assert {json.dumps(each) for each in named} == {'{"type": "prometheus", "uid": "${datasource}"}'}
    assert variables()[0]["name"] == "datasource"
    assert variables()[0]["type"] == "datasource"


@pytest.mark.parametrize("row", [None, *ROWS], ids=lambda row: row["title"] if row else "top")
def test_panels_do_not_overlap_and_fill_the_width(row: dict[str, Any] | None) -> None:
    """Each place of the grid belongs to one panel, none reaches beyond it, and no line has holes.

    What a folded row holds is laid out as if that row alone were open.
    """
    cells: dict[tuple[int, int], str] = {}
    top = row["gridPos"]["y"] + 1 if row else 0
    for panel in row["panels"] if row else dashboard()["panels"]:
        at = panel["gridPos"]
        assert at["x"] >= 0
        assert at["x"] + at["w"] <= WIDTH
        for cell in ((x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])):
            assert cell not in cells, f"{panel['title']} lies on {cells[cell]}"
            cells[cell] = panel["title"]
    assert min(y for _, y in cells) == top
    assert len(cells) == WIDTH * (max(y for _, y in cells) + 1 - top)


def test_what_is_seen_first_asks_questions() -> None:
    """Before anything is unfolded, each title is what its reader wants to know; the rest is under one of these."""
    seen = dashboard()["panels"]
    assert [panel["title"] for panel in seen if not panel["title"].endswith("?")] == []
    assert len(ROWS) > 4
    assert all(row["collapsed"] and len(row["panels"]) >= 3 for row in ROWS)
    assert seen[-len(ROWS) :] == ROWS


def test_alerts_are_listed_where_they_are_seen() -> None:
    """Those of the chosen group and of what has a job of its own, and only what asks for somebody, above all curves."""
    (listed,) = [panel for panel in dashboard()["panels"] if panel["type"] == "alertlist"]
    assert listed["gridPos"]["y"] < min(panel["gridPos"]["y"] for panel in PANELS if panel["type"] == "timeseries")
    monitors = (DEPLOY / "components" / "monitoring").glob("pod-monitor-*.yaml")
    others = {yaml.safe_load(file.read_text(encoding="utf-8"))["metadata"]["name"] for file in monitors}
    filtered = re.fullmatch(
        r'\{job=~"\$\{job:regex\}\|stream-apple-\((.*)\)"\}', listed["options"]["alertInstanceLabelFilter"]
    )
    assert filtered
    assert {f"stream-apple-{name}" for name in filtered[1].split("|")} == others
    assert all(alert["alert"].startswith(listed["options"]["alertName"]) for alert in alerts())
    assert {state for state, shown in listed["options"]["stateFilter"].items() if shown} == {
        "firing",
        "pending",
        "error",
    }
    assert listed["description"].endswith(".")


def test_links_lead_somewhere() -> None:
    """Each of the six questions leads to the panel that says more, with the time and the choices that one has made."""
    ids = {panel["id"]: panel["title"] for panel in panels()}
    first = [panel for panel in PANELS if panel["gridPos"]["y"] == 0]
    assert len(first) == 6
    for panel in first:
        (link,) = panel["links"]
        asked = re.fullmatch(r"/d/([\w-]+)\?viewPanel=(\d+)&\$\{__url_time_range\}&\$\{__all_variables\}", link["url"])
        assert asked
        assert asked[1] == dashboard()["uid"]
        assert ids[int(asked[2])] == link["title"]
        assert int(asked[2]) != panel["id"]
    assert [link["title"] for link in dashboard()["links"]] == ["Alerts"]


def test_annotations_are_confined_to_what_is_chosen() -> None:
    """Marks are of the chosen group, workers and partitions; those of epochs stand on panels of loss and model."""
    ids = {panel["id"] for panel in PANELS}
    for note in dashboard()["annotations"]["list"]:
        read = selectors(note["target"]["expr"])
        confined = {matcher.value.removesuffix("|") for each in read for matcher in each.matchers}
        assert "$instance" in confined
        names = {each.name for each in read}
        if "ALERTS" in names:
            assert {"$group", "$topic", "$partition"} <= confined
            assert "on (namespace, job)" in note["target"]["expr"]
        if "stream_apple_epoch" in names:
            assert "$partition" in confined
            assert not note["filter"]["exclude"]
            assert set(note["filter"]["ids"]) < ids


def test_ids_and_titles_are_unique() -> None:
    """Links to a panel go by its id; people and the runbook go by its title."""
    for one, other in combinations(panels(), 2):
        assert one["id"] != other["id"]
        if {one["type"], other["type"]} <= {"timeseries"}:
            assert one["title"] != other["title"]


@pytest.mark.parametrize("panel", PANELS, ids=lambda panel: f"{panel['id']}-{panel['title']}")
class TestPanels:
    """What each panel must have."""

    def test_it_says_what_it_shows(self, panel: dict[str, Any]) -> None:
        """A title, a description in a sentence, and a unit."""
        assert panel["title"]
        assert panel["description"].endswith(".")
        assert panel["fieldConfig"]["defaults"]["unit"] not in NO_UNIT

    def test_its_queries_are_told_apart(self, panel: dict[str, Any]) -> None:
        """Different letters, and a name for each line."""
        letters = [target["refId"] for target in panel["targets"]]
        assert letters == sorted(set(letters))
        assert letters
        assert all(target["legendFormat"] or target.get("format") == "table" for target in panel["targets"])

    def test_it_follows_the_variables(self, panel: dict[str, Any]) -> None:
        """Each query is confined to the chosen workers, and each series of a partition to the chosen partitions."""
        chosen = {each["id"]: PROCESSES.get(row["title"], "$instance") for row in ROWS for each in row["panels"]}
        confined = f'instance=~"{chosen.get(panel["id"], "$instance")}"'
        for target in panel["targets"]:
            braces = re.findall(r"\{([^}]*)\}", target["expr"])
            assert braces
            assert all(confined in inside for inside in braces)


def test_the_first_row_answers_the_three_questions() -> None:
    """Above everything else: is it learning, is it keeping up, is it losing anything."""
    first = [panel for panel in PANELS if panel["gridPos"]["y"] == 0]
    asked = [panel["description"].split("?")[0] for panel in sorted(first, key=lambda panel: panel["gridPos"]["x"])]
    assert asked == [
        "Is it learning",
        "Is it learning",
        "Is it keeping up",
        "Is it keeping up",
        "Is it losing anything",
        "Is it losing time",
    ]


def test_variables_are_used_and_used_ones_exist() -> None:
    """Nothing is asked of the viewer in vain, and no query waits for a variable that there is not."""
    text = DASHBOARD.read_text(encoding="utf-8")
    used = set(re.findall(r"\$\{?(\w+)", text)) - BUILT_IN
    assert used == {variable["name"] for variable in variables()}
    assert [variable["name"] for variable in variables()] == [
        "datasource",
        "topic",
        "group",
        "instance",
        "partition",
        "job",
        "replica",
        "joiner",
        "comparison",
    ]


@pytest.mark.parametrize("place", panel_expressions() + annotation_expressions(), ids=lambda place: place.where)
def test_the_dashboard_names_what_exists(place: Place) -> None:
    """Every series, label and closed label value is one that workers export or that is recorded."""
    assert faults(place) == []


def test_variables_ask_for_what_exists() -> None:
    """Each `label_values(series, label)` names a series of a worker and one of its labels."""
    for variable in variables()[1:]:
        asked = re.fullmatch(r"label_values\((.+), (\w+)\)", variable["query"]["query"])
        assert asked
        assert variable["definition"] == variable["query"]["query"]
        assert faults(Place(variable["name"], f"sum by ({asked[2]}) ({asked[1]})")) == []
