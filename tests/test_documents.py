"""What the documents name exists: commands, options, settings, metrics, events, alerts, files, links, targets of make.

`docs/configuration.md` is what its generator makes, and the README stays short enough to be read.
"""

import ast
import re
from pathlib import Path

import click
import pytest
from deploy.monitoring.queries import alerts
from deploy.worker_manifest import memory_needed

from stream_apple import errors
from stream_apple.adapters.kafka.client_properties import Identity, consumer_properties, producer_properties
from stream_apple.cli import SUMMARIES, main
from stream_apple.config import reference
from stream_apple.config.sources import PASSED_THROUGH
from stream_apple.config.validation_errors import SECTIONS, keys_of_section
from stream_apple.monitoring.comparison_metrics import COMPARISON_METRICS
from stream_apple.monitoring.definitions import METRICS
from stream_apple.monitoring.join_metrics import JOIN_METRICS
from stream_apple.monitoring.merge_metrics import MERGE_METRICS
from stream_apple.monitoring.metric import PREFIX
from stream_apple.monitoring.serving_metrics import SERVING_METRICS
from study.__main__ import command as study

# With documents in them, besides the top and `docs`.
_FOLDERS = ("deploy", "docker", "schemas")

ROOT = Path(__file__).resolve().parent.parent
README, DOCS = ROOT / "README.md", ROOT / "docs"
ARCHITECTURE, CONFIGURATION, OPERATIONS = (
    DOCS / f"{name}.md" for name in ("architecture", "configuration", "operations")
)
DOCUMENTS = sorted(
    path
    for folder, pattern in ((ROOT, "*.md"), (DOCS, "*.md"), *((ROOT / name, "**/*.md") for name in _FOLDERS))
    for path in folder.glob(pattern)
)
MOST_BYTES_OF_THE_README = 8192
# Counters and histograms have more series than one.
_SUFFIXES = ("_bucket", "_sum", "_count")


@pytest.fixture(params=DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def text(request: pytest.FixtureRequest) -> str:
    """Each document, with its path as its first line."""
    path: Path = request.param
    return f"{path}\n{path.read_text(encoding='utf-8')}"


def commands_of(text: str) -> list[tuple[str, list[str]]]:
    """Every `stream-apple <command>` and `python -m study` in code, with the options that follow it."""
    code = re.findall(r"`([^`]+)`", text) + re.findall(r"^ {4}(.*)$", text, re.MULTILINE)
    begin = r"(?<![\w=/.-])(?:stream-apple|python -m(?= study)) ([a-z]+)([^#|;&]*)"
    calls = [call for piece in code for call in re.findall(begin, piece)]
    return [(name, re.findall(r"(?<!\S)--[a-z][a-z-]*", rest)) for name, rest in calls]


def test_commands_and_their_options_exist(text: str) -> None:
    """With exactly these names."""
    for name, options in commands_of(text):
        command = study if name == "study" else main.get_command(click.Context(main), name)
        assert command is not None, name
        spellings = ({*parameter.opts, *parameter.secondary_opts} for parameter in command.params)
        known = {"--help"}.union(*spellings)
        assert set(options) <= known, name


def test_settings_exist(text: str) -> None:
    """`section.key`, sections of the example of a configuration, and environment variables."""
    sections = "|".join(map(re.escape, sorted(SECTIONS, reverse=True)))  # a section comes after those that it holds
    names = re.findall(rf"(?<![\w./-])({sections})\.([a-z][a-z_0-9]+)\b(?!\.)", text)
    # The name of a file is no setting.
    unknown = {name for name in names if name[1] not in {*SECTIONS[name[0]].model_fields, "md", "py", "toml", "yaml"}}
    assert unknown == set()
    for found in re.findall(r"STREAM_APPLE_([A-Z]+(?:__[A-Z0-9]+(?:_[A-Z0-9]+)*)+)", text):
        *above, key = found.lower().split("__")
        section = ".".join(above)
        assert section in PASSED_THROUGH or key in SECTIONS[section].model_fields


def test_metrics_exist(text: str) -> None:
    """With their prefix and their suffix."""
    series = {
        PREFIX + row.name for row in (*METRICS, *MERGE_METRICS, *SERVING_METRICS, *JOIN_METRICS, *COMPARISON_METRICS)
    }
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
    named = re.findall(r"`((?:stream_apple|study|tests|deploy|docker|docs|schemas)/[\w./-]*)`", text)
    for name in named + re.findall(r"(?:python|-f) ((?:tests|docker|deploy)/[\w./-]+)", text):
        assert (ROOT / name).exists(), name


def test_modules_that_are_named_exist(text: str) -> None:
    """A file in code without its folder is somewhere in the package, in the study, or among the tests."""
    known = {path.name for folder in ("stream_apple", "study", "tests") for path in (ROOT / folder).rglob("*.py")}
    assert set(re.findall(r"`([a-z_]+\.py)`", text)) <= known


def test_targets_of_make_exist(text: str) -> None:
    """In code: `make unit`, and several in one call."""
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    code = re.findall(r"`([^`\n]+)`", text) + re.findall(r"^ {4}(.*)$", text, re.MULTILINE)
    calls = [
        re.findall(r"(?<![\w-])[a-z][a-z-]*(?= |$)", rest)
        for piece in code
        for rest in re.findall(r"^make ([^#]*)", piece)
    ]
    assert {target for call in calls for target in call} <= targets


def test_events_exist(text: str) -> None:
    """Those that stand behind the word are rows of the table of events."""
    table = (ROOT / "deploy" / "events.md").read_text(encoding="utf-8")
    named = re.findall(r"\bevents? (`[a-z_]+`(?:(?:,? and|,) `[a-z_]+`)*)", text)
    names = {name for together in named for name in re.findall(r"`([a-z_]+)`", together)}
    assert names <= set(re.findall(r"^\| `([a-z_]+)` \|", table, re.MULTILINE))


def test_alerts_exist(text: str) -> None:
    """Under these names."""
    assert set(re.findall(r"\bStreamApple[A-Z]\w+", text)) <= {alert["alert"] for alert in alerts()}


def test_operations_has_every_alert() -> None:
    """Each one once in the table."""
    rows = re.findall(r"^\| (StreamApple[\w, ]+) \|", OPERATIONS.read_text(encoding="utf-8"), re.MULTILINE)
    listed = [name for row in rows for name in row.split(", ")]
    assert sorted(listed) == sorted({alert["alert"] for alert in alerts()})


def test_operations_has_every_exit_code_of_a_worker() -> None:
    """Those of the table of errors that `run` can end with, and 0 and 1."""
    section = OPERATIONS.read_text(encoding="utf-8").partition("## Exit codes")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| (\d+) \|", section, re.MULTILINE)
    others = {each.exit_code for each in (errors.InputFileError, errors.VerificationError, errors.UnprovedError)}
    kinds = [*errors.StreamAppleError.__subclasses__(), *errors.BrokerError.__subclasses__()]
    codes = {kind.exit_code for kind in kinds} - others
    assert sorted(map(int, rows)) == sorted({0, 1} | codes)


def test_operations_calculates_memory_as_the_manifests_do() -> None:
    """The last column of its table is what `memory_needed` says for four partitions."""
    rows = re.findall(
        r"^\| (\d+) \| ([\d,]+) \|.*\| ([\d.]+) (MB|GB) \|$", OPERATIONS.read_text(encoding="utf-8"), re.MULTILINE
    )
    assert len(rows) == 4
    for bits, slots, size, unit in rows:
        assert int(slots.replace(",", "")) == 1 << int(bits)
        given = float(size) * {"MB": 1e6, "GB": 1e9}[unit]
        assert given == pytest.approx(memory_needed(int(bits), 4), rel=0.02)


def test_the_readme_names_every_command() -> None:
    """Nothing that one can do is a secret."""
    text = README.read_text(encoding="utf-8")
    assert {name for name, _ in commands_of(text)} >= set(SUMMARIES) - {"demo"}
    assert "make demo" in text


def test_the_readme_is_short() -> None:
    """What does not fit is for a page of `docs/`."""
    assert README.stat().st_size <= MOST_BYTES_OF_THE_README


def test_the_readme_leads_to_every_page() -> None:
    """Its index has all of `docs/`, but for the page that an index of packages shows."""
    linked = set(re.findall(r"\]\((docs/[\w-]+\.md)\)", README.read_text(encoding="utf-8")))
    assert linked == {f"docs/{path.name}" for path in DOCS.glob("*.md")} - {"docs/package-index.md"}


def test_the_architecture_s_page_names_what_there_is() -> None:
    """Each `folder/module:name` or `folder/module:Class.method`, and each `folder/module`, is in the package."""
    found = re.findall(r"`([a-z_]+(?:/[a-z_]+)+)(?::([A-Za-z_.]+))?`", ARCHITECTURE.read_text(encoding="utf-8"))
    assert len(found) > 30
    missing = []
    for module, name in found:
        path = ROOT / "stream_apple" / f"{module}.py"
        if not path.exists():
            # Folders of the repository are named in the same way.
            missing += [module] if name or not (ROOT / module).is_dir() else []
            continue
        found_at: ast.AST | None = ast.parse(path.read_text(encoding="utf-8"))
        for part in filter(None, name.split(".")):
            inside = getattr(found_at, "body", [])
            found_at = next((each for each in inside if getattr(each, "name", None) == part), None)
        missing += [f"{module}:{name}"] if found_at is None else []
    assert missing == []


@pytest.mark.parametrize("page", sorted(DOCS.glob("*.md")), ids=lambda path: str(path.stem))
def test_pages_begin_with_what_they_answer(page: Path) -> None:
    """A title, and a sentence, so that whoever came by a link knows whether to read on."""
    title, blank, sentence, *_ = page.read_text(encoding="utf-8").splitlines()
    assert title.startswith("# ")
    assert not blank
    assert re.match(r"[A-Z]", sentence)


def test_the_configuration_s_page_is_up_to_date() -> None:
    """It is what `make docs` makes."""
    assert CONFIGURATION.read_text(encoding="utf-8") == reference.page(), "run `make docs`"


def test_the_configuration_s_page_has_every_setting() -> None:
    """Each key is a row of its section with all columns but unit and part of the model filled, experts' at its end."""
    parts = re.split(r"^## ([\w.]+)$", CONFIGURATION.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]
    pages = dict(zip(parts[::2], parts[1::2], strict=True))
    for section, model in SECTIONS.items():
        rows = [line.strip("| ").split(" | ") for line in pages[section].splitlines() if line.startswith("| `")]
        facts = model.model_json_schema()["properties"]
        apart = sorted(keys_of_section(section), key=lambda key: facts[key].get("expert", False))
        assert [row[0].strip("`") for row in rows] == apart
        for _, kind, default, _, bounds, _, about in rows:
            assert all((kind, default, bounds))
            assert about.endswith(".")


def test_the_configuration_s_page_has_the_worker_s_defaults_of_librdkafka() -> None:
    """Those of `client_properties.py` that a user may replace, and no others."""
    text = CONFIGURATION.read_text(encoding="utf-8")
    rows = re.findall(r"^\| `([a-z.]+)` \| ([\w.]*) ?\| ([\w.]*) ?\| .*\|$", text, re.MULTILINE)
    identity = Identity("group", "instance", "transactional")
    for column, properties in ((1, consumer_properties), (2, producer_properties)):
        found = properties({}, identity)
        replaced = properties(dict.fromkeys(found, "mine"), identity)
        ours = {name: str(value).lower() for name, value in found.items() if replaced[name] == "mine"}
        assert {row[0]: row[column] for row in rows if row[column]} == ours


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("`stream-apple topics --retention forever`", [("topics", ["--retention"])]),
        ("    stream-apple produce x.gz --interval 1s    # --not an option", [("produce", ["--interval"])]),
        ("`python -m study DIR --seeds 3`", [("study", ["--seeds"])]),
        ("stream-apple in prose", []),
    ],
)
def test_commands_are_seen(text: str, expected: list[tuple[str, list[str]]]) -> None:
    """In the text and in blocks, and not in prose."""
    assert commands_of(text) == expected
