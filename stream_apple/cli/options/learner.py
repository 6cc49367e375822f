"""The options of `evaluate` that choose a learner; they are made from the declarations of a learner's options."""

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import click

from stream_apple.cli.options.parameters import Decorator, given_options, option_group
from stream_apple.config import LearnerSettings
from stream_apple.learners.options import ALL_NAMESPACES, SYSTEMS, Declaration, IntegerBounds

if TYPE_CHECKING:
    from stream_apple.learners.port import LearnerOptions  # which needs numpy

_APPLE = SYSTEMS["apple"]
_OFFERED = _APPLE.in_section("learner") | _APPLE.in_section("learner.paper")


class LearnerChoice:
    """The options of a learner, as they were given; None: not given, so that the default depends on the others."""

    _fields = (*_OFFERED, "bigrams")

    def __init__(self, *, bigrams: bool, **given: Any) -> None:  # noqa: ANN401  each of its own type
        if bigrams and given["ngrams"]:
            raise click.UsageError("--bigrams: expected it without --ngrams, found both")
        self._given = given | ({"ngrams": {ALL_NAMESPACES: 2}} if bigrams else {})
        self._typed = {name for name in given if given_options(name, *(["bigrams"] if name == "ngrams" else []))}

    def options(
        self, configured: LearnerSettings, max_features_per_example: int, *, to_merge: bool
    ) -> "LearnerOptions":
        """Return the learner's options; click.UsageError for those that contradict each other.

        configured  settings of a configuration, which hold where no option was typed; another system than apple is
                    configured as a whole
        to_merge    whether models are merged, so that they are mergeable by default
        """
        if configured.system != "apple":
            for name in sorted(self._typed):
                raise click.UsageError(
                    f"{_spelled(name)}: expected an option of the system apple with learner.system = apple, found "
                    f"{configured.system!r}: set learner.{configured.system} in the configuration"
                )
            return configured.options(max_features_per_example)
        given = self._given | {name: value for name, value in configured.given().items() if name not in self._typed}
        if to_merge and given["mergeable"] is None:
            given["mergeable"] = True
        try:
            return _APPLE.new_options(**given, max_features_per_example=max_features_per_example)
        except ValueError as error:
            field, _, fault = str(error).partition(":")
            raise click.UsageError(f"{_spelled(field)}:{fault}") from None


def _spelled(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def _options() -> Iterator[Decorator]:
    for name, declaration in _OFFERED.items():
        yield _option(declaration)
        if name == "ngrams":
            yield click.option("--bigrams", is_flag=True, help=f"The same as --ngrams '{ALL_NAMESPACES}=2'.")


def _option(declaration: Declaration) -> Decorator:
    option, parse = declaration.option, declaration.option.parse
    about: dict[str, Any] = {"help": option.help, "hidden": option.expert, "metavar": option.metavar}
    if declaration.kind is bool and declaration.default is None:
        about |= {"is_flag": True, "default": None}
        return click.option(f"{_spelled(declaration.name)}/{_spelled(f'no_{declaration.name}')}", **about)
    if declaration.kind is bool:
        about["is_flag"] = True
    elif parse is not None:
        about["callback"] = lambda _context, _parameter, text: _parsed(parse, text or "")
    else:
        about |= {"type": _type_of(declaration), "default": declaration.default}
        about["show_default"] = declaration.default not in {None, ""}
    return click.option(_spelled(declaration.name), **about)


def _type_of(declaration: Declaration) -> click.ParamType[Any] | None:
    bounds = declaration.option.bounds
    if isinstance(bounds, IntegerBounds):
        return click.IntRange(bounds.low, bounds.high)
    if bounds is not None:
        return click.FloatRange(bounds.low, bounds.high, min_open=not bounds.closed)
    return click.Choice(declaration.choices) if declaration.choices else None


def _parsed(parse: Callable[[str], dict[str, int]], text: str) -> dict[str, int]:
    try:
        return parse(text)
    except ValueError as error:
        raise click.BadParameter(str(error)) from None


learner_options = option_group(*_options())
"""Decorates a command with the options of `LearnerChoice`."""
