"""The learner's options: what one declaration says holds for the learner, the configuration and `evaluate` alike."""

import math

import click
import pytest
from click.testing import CliRunner
from pydantic import ValidationError

from stream_apple.cli.evaluate import command as evaluate
from stream_apple.config import LearnerSettings, LimitSettings, reference
from stream_apple.config.validation_errors import SECTIONS
from stream_apple.learners.apple.options import DECLARED, Declaration, IntegerBounds, Options

OPTIONS = {option.name: option for option in evaluate.params}
OFFERED = [name for name, each in DECLARED.items() if each.option.section != "limits"]
PAGE = reference.page()


def values_of(declaration: Declaration) -> list[tuple[object, bool]]:
    """Values at the edges of what may be chosen, and whether they may be."""
    bounds = declaration.option.bounds
    if declaration.choices:
        return [*((choice, True) for choice in declaration.choices), ("another", False)]
    if bounds is None or declaration.option.parse is not None:
        return []
    if isinstance(bounds, IntegerBounds):
        return [(bounds.low - 1, False), (bounds.low, True), (bounds.high, True), (bounds.high + 1, False)]
    return [
        (math.nextafter(bounds.low, -math.inf), False),
        (float(bounds.low), bounds.closed),
        (math.nextafter(bounds.low, math.inf), True),
        (float(bounds.high), True),
        (math.nextafter(bounds.high, math.inf), False),
    ]


EDGES = [(name, value, taken) for name, each in DECLARED.items() for value, taken in values_of(each)]


def taken_by_the_learner(declaration: Declaration, value: object) -> bool:
    """Whether it is a value by itself; it may still contradict the other options' defaults."""
    try:
        Options(**{declaration.name: value})  # type: ignore[arg-type]
    except ValueError as error:
        expected = declaration.option.bounds or f"one of {', '.join(declaration.choices)}"
        return str(error) != f"{declaration.name}: expected {expected}, found {value!r}"
    return True


def taken_by_the_configuration(declaration: Declaration, value: object) -> bool:
    """The same; what contradicts others is said of the whole section."""
    try:
        SECTIONS[declaration.option.section].model_validate({declaration.name: value})
    except ValidationError as error:
        return not any(fault["loc"] for fault in error.errors())
    return True


def taken_by_evaluate(declaration: Declaration, value: object) -> bool:
    """The same."""
    option = OPTIONS[declaration.name]
    try:
        option.type.convert(value, option, None)
    except click.BadParameter:
        return False
    return True


@pytest.mark.parametrize(("name", "value", "taken"), EDGES)
def test_all_take_the_same_values(name: str, value: object, taken: bool) -> None:  # noqa: FBT001
    """What one of them takes the others take, and what one refuses the others refuse."""
    declaration = DECLARED[name]
    assert taken_by_the_learner(declaration, value) == taken
    if declaration.option.section:
        assert taken_by_the_configuration(declaration, value) == taken
    if name in OFFERED:
        assert taken_by_evaluate(declaration, value) == taken


@pytest.mark.parametrize("name", list(DECLARED))
def test_all_have_the_same_defaults(name: str) -> None:
    """A setting that is left out is the learner's own, and so is an option."""
    assert getattr(LearnerSettings().options(), name) == getattr(Options(), name)
    if name in OFFERED:
        # None: as the learner chooses.
        assert OPTIONS[name].to_info_dict()["default"] in {getattr(Options(), name), None}


@pytest.mark.parametrize("features", [1, 1 << 24, (1 << 24) + 1])
def test_a_feature_budget_that_is_taken_makes_a_learner(features: int) -> None:
    """A worker that has started does not end on a limit that only the learner knows."""
    try:
        limits = LimitSettings(max_features=1, max_features_per_example=features)
    except ValidationError:
        with pytest.raises(ValueError, match="max_features_per_example"):
            Options(max_features_per_example=features)
    else:
        Options(max_features_per_example=limits.max_features_per_example)


def helped(how: str) -> str:
    """What is said, on a terminal of 100 columns."""
    return CliRunner().invoke(evaluate, [how], terminal_width=100).stdout


def flags_of(said: str) -> set[str]:
    """The options that it explains."""
    return {word.rstrip(",") for line in said.splitlines() for word in line.split()[:2] if line.startswith("  -")}


@pytest.mark.parametrize("name", OFFERED)
def test_help_explains_each(name: str) -> None:
    """Those that few need only if all are asked for."""
    flag = f"--{name.replace('_', '-')}"
    assert flag in flags_of(helped("--help-all"))
    assert (flag in flags_of(helped("--help"))) != DECLARED[name].option.expert


def test_help_is_read_at_once() -> None:
    """It fits two screens; that of all options has every one, and leaves the command as it was."""
    short = helped("--help")
    assert len(short.splitlines()) <= 80
    every = {flag for option in evaluate.params if isinstance(option, click.Option) for flag in option.opts}
    assert flags_of(helped("--help-all")) >= every - {"--start"}  # another name, which follows the first
    assert helped("--help") == short


@pytest.mark.parametrize("name", list(DECLARED))
def test_the_configuration_has_each(name: str) -> None:
    """In its section, and on the reference page, where those that few need stand apart; but not what is for files."""
    option = DECLARED[name].option
    holders = [section for section, model in SECTIONS.items() if name in model.model_fields]
    if not option.section:
        assert holders == []
        return
    assert option.section in holders
    about = PAGE.partition(f"\n## {option.section}\n")[2].partition("\n## ")[0]
    usual, _, expert = about.partition(f"\n### Expert settings of {option.section}\n")
    assert f"\n| `{name}` | " in (expert if option.expert else usual)
