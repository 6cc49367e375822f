"""What README and guides name exists: commands, options, settings, metrics, events, alerts, files."""

import re
from pathlib import Path
from typing import Any

import click
import pytest
from deploy.worker_manifest import memory_needed
from monitoring.queries import alerts

from stream_apple import errors
from stream_apple.cli import SUMMARIES, main
from stream_apple.config import Config
from stream_apple.runtime.catalogue import METRICS, PREFIX

ROOT = Path(__file__).resolve().parent.parent
README, GUIDE, EVENTS = ROOT / "README.md", ROOT / "deploy" / "GUIDE.md", ROOT / "deploy" / "events.md"
DOCUMENTS = [
    README,
    GUIDE,
    EVENTS,
    ROOT / "deploy" / "README.md",
    ROOT / "docker" / "README.md",
    *sorted((ROOT / "deploy" / "components").glob("*/README.md")),
]
SECTIONS: dict[str, Any] = {name: field.annotation for name, field in Config.model_fields.items()}
# Counters and histograms have more series than one.
_SUFFIXES = ("_bucket", "_sum", "_count")


@pytest.fixture(params=DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def text(request: pytest.FixtureRequest) -> str:
    """Each document, with its path as its first line."""
    path: Path = request.param
    return f"{path}\n{path.read_text(encoding='utf-8')}"


def commands_of(text: str) -> list[tuple[str, list[str]]]:
    """Every `stream-apple <command>` in code, with the options that follow it."""
    code = re.findall(r"`([^`]+)`", text) + re.findall(r"^ {4}(.*)$", text, re.MULTILINE)
    calls = [call for piece in code for call in re.findall(r"(?<![\w=/.-])stream-apple ([a-z]+)([^#|;&]*)", piece)]
    return [(name, re.findall(r"(?<!\S)--[a-z][a-z-]*", rest)) for name, rest in calls]


def test_commands_and_their_options_exist(text: str) -> None:
    """With exactly these names."""
    for name, options in commands_of(text):
        assert name in SUMMARIES
        command = main.get_command(click.Context(main), name)
        assert command is not None
        known = {spelling for parameter in command.params for spelling in parameter.opts} | {"--help"}
        assert set(options) <= known, name


def test_settings_exist(text: str) -> None:
    """`section.key`, sections of the example of a configuration, and environment variables."""
    names = re.findall(rf"(?<![\w./-])({'|'.join(set(SECTIONS) - {'kafka'})})\.([a-z][a-z_]+)\b(?!\.)", text)
    # The name of a file is no setting.
    unknown = {name for name in names if name[1] not in {*SECTIONS[name[0]].model_fields, "md", "py", "toml", "yaml"}}
    assert unknown == set()
    for section, key in re.findall(r"STREAM_APPLE_([A-Z]+)__([A-Z_]+)", text):
        assert section.lower() in SECTIONS
        assert section == "KAFKA" or key.lower() in SECTIONS[section.lower()].model_fields


def test_metrics_exist(text: str) -> None:
    """With their prefix and their suffix."""
    series = {PREFIX + row.name for row in METRICS}
    # Not the package, nor the files that are named after it.
    named = set(re.findall(rf"`({PREFIX}[a-z_]+)`", text)) - {f"{PREFIX}toml"}
    for name in named:
        base = next((name.removesuffix(suffix) for suffix in _SUFFIXES if name.endswith(suffix)), name)
        assert {name, base, f"{name}_info"} & series or f"{name}".removesuffix("_info") in series, name


def test_links_lead_to_files_and_headings(text: str) -> None:
    """Relative links, also those with an anchor."""
    path = Path(text.partition("\n")[0])
    for target in re.findall(r"\]\((?!https?:)([^)]+)\)", text):
        name, _, anchor = target.partition("#")
        found = path.parent / name if name else path
        assert found.exists(), target
        if anchor:
            headings = re.findall(r"^#+ (.+)$", found.read_text(encoding="utf-8"), re.MULTILINE)
            anchors = {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}
            assert anchor in anchors, target


def test_files_that_are_named_exist(text: str) -> None:
    """Paths of the repository in code."""
    for name in re.findall(r"`((?:stream_apple|tests|deploy|docker|schemas)/[\w./-]*)`", text):
        assert (ROOT / name).exists(), name


def test_alerts_exist(text: str) -> None:
    """Under these names."""
    assert set(re.findall(r"\bStreamApple[A-Z]\w+", text)) <= {alert["alert"] for alert in alerts()}


def test_the_guide_has_every_alert() -> None:
    """Each one once in the table."""
    rows = re.findall(r"^\| (StreamApple[\w, ]+) \|", GUIDE.read_text(encoding="utf-8"), re.MULTILINE)
    listed = [name for row in rows for name in row.split(", ")]
    assert sorted(listed) == sorted({alert["alert"] for alert in alerts()})


def test_the_guide_has_every_exit_code_of_a_worker() -> None:
    """Those of the table of errors that `run` can end with, and 0 and 1."""
    section = GUIDE.read_text(encoding="utf-8").partition("## Exit codes")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| (\d+) \|", section, re.MULTILINE)
    others = {errors.InputFileError.exit_code, errors.VerificationError.exit_code}
    codes = {kind.exit_code for kind in errors.StreamAppleError.__subclasses__()} - others
    assert sorted(map(int, rows)) == sorted({0, 1} | codes)


def test_the_guide_calculates_memory_as_the_manifests_do() -> None:
    """The last column of its table is what `memory_needed` says for four partitions."""
    rows = re.findall(
        r"^\| (\d+) \| ([\d,]+) \|.*\| ([\d.]+) (MB|GB) \|$", GUIDE.read_text(encoding="utf-8"), re.MULTILINE
    )
    assert len(rows) == 4
    for bits, slots, size, unit in rows:
        assert int(slots.replace(",", "")) == 1 << int(bits)
        given = float(size) * {"MB": 1e6, "GB": 1e9}[unit]
        assert given == pytest.approx(memory_needed(int(bits), 4), rel=0.02)


def test_the_readme_names_every_command() -> None:
    """Nothing that one can do is a secret."""
    named = {name for path in (README, GUIDE) for name, _ in commands_of(path.read_text(encoding="utf-8"))}
    assert named >= set(SUMMARIES) - {"demo"}
    assert "make demo" in README.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("`stream-apple topics --retention forever`", [("topics", ["--retention"])]),
        ("    stream-apple produce x.gz --interval 1s    # --not an option", [("produce", ["--interval"])]),
        ("stream-apple in prose", []),
    ],
)
def test_commands_are_seen(text: str, expected: list[tuple[str, list[str]]]) -> None:
    """In the text and in blocks, and not in prose."""
    assert commands_of(text) == expected
