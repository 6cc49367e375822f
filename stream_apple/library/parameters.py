"""Settings as parameters of an estimator, with the same names, defaults, and bounds.

The parameters are the options of the learner `apple`, which are the settings of the section `learner`, and the settings
of the section `input` about features; `paper` has the settings of `learner.paper`, by name.
A class that is decorated with `takes_options` gets an `__init__` whose signature has all options and its own
parameters, so that `inspect`, tab completion, scikit-learn's `get_params` and River's `clone` see them.
"""

import inspect
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, SupportsIndex, TypeVar

import numpy as np

from stream_apple.learners.options import SYSTEMS
from stream_apple.learners.port import LearnerOptions
from stream_apple.library.cells import field_name
from stream_apple.library.featurizer import ROW
from stream_apple.nearest_names import nearest_names
from stream_apple.records.mapping import InputMapping

_C = TypeVar("_C", bound=type)
DERIVED = frozenset({"loss", "classes"})
"""The options that an estimator derives itself, from its kind and from the labels."""
_DECLARED = SYSTEMS["apple"].declared
_PAPER = SYSTEMS["apple"].in_section("learner.paper")
OPTIONS: Mapping[str, object] = {
    # River takes any tuple for a class with its parameters, so an empty tuple can't be a default.
    name: None if each.default == () else each.default
    for name, each in _DECLARED.items()
    if name not in DERIVED and name not in _PAPER
}
"""Name -> default of each parameter that is an option; None for an empty table."""

_OF_INPUT = ("features", "separator", "ignore", "categories", "numbers", "times", "time_zone", "unreadable")
_INPUT: Mapping[str, object] = {name: getattr(ROW, name) or None for name in _OF_INPUT}
"""Name -> default of each parameter that is a setting of the section `input`."""


def takes_options(**own: object) -> Callable[[_C], _C]:
    """Give a class an `__init__` that stores its own parameters and all that are settings, under their names.

    own  name -> default
    """
    defaults = {**own, **OPTIONS, "paper": None, **_INPUT}
    parameters = [
        inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD),
        *(inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=value) for name, value in defaults.items()),
    ]

    def decorate(cls: _C) -> _C:
        def __init__(self: object, **chosen: object) -> None:  # noqa: N807
            for name in chosen:
                if name not in defaults:
                    known = _known(name, defaults)
                    raise TypeError(f"{cls.__name__}: expected one of its parameters, found {name!r}; {known}")
            for name, value in defaults.items():
                setattr(self, name, chosen.get(name, value))

        __init__.__qualname__ = f"{cls.__qualname__}.__init__"
        __init__.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        cls.__init__ = __init__  # type: ignore[misc]
        return cls

    return decorate


def _known(name: str, names: Collection[str]) -> str:
    near = nearest_names(name, names)
    return f"the nearest is {near[0]!r}" if near else f"known are {', '.join(names)}"


def options_of(estimator: object, **derived: Any) -> LearnerOptions:  # noqa: ANN401  an option's value has its own type
    """Return the options of an estimator's parameters and of `derived`; ValueError if they contradict each other."""
    chosen = {name: getattr(estimator, name) for name in OPTIONS}
    chosen |= {name: _DECLARED[name].default for name, value in chosen.items() if value is None}
    return SYSTEMS["apple"].new_options(**chosen, **_paper_of(estimator), **derived)


def mapping_of(estimator: object) -> InputMapping:
    """Return the mapping of an estimator's parameters; ValueError if they are not what the section `input` takes."""
    chosen = {name: _as_list(getattr(estimator, name)) for name in _OF_INPUT}
    if chosen == _INPUT:
        return ROW
    from stream_apple.config.input_settings import InputSettings
    from stream_apple.config.validation_errors import expected

    given = {name: value for name, value in chosen.items() if value is not None}
    try:
        settings = InputSettings.model_validate({"label": "", "weight": "", "id": "", **given})
    except ValueError as error:
        faults: Any = error  # pydantic's
        name = str(faults.errors()[0]["loc"][0])
        wanted = expected(InputSettings.model_json_schema()["properties"][name])
        raise ValueError(f"{name}: expected {wanted}, found {chosen[name]!r}") from None
    return settings.mapping() or ROW


def _as_list(value: object) -> object:
    """Return an array or so of names as a list of texts, by which the mapping knows columns; all else as is."""
    return value if isinstance(value, str) or not isinstance(value, Iterable) else [field_name(name) for name in value]


def _paper_of(estimator: object) -> Mapping[str, Any]:
    """Return the estimator's parameter `paper`; ValueError unless it is None or has options of the paper's."""
    found: object = vars(estimator)["paper"]
    if found is None:
        return {}
    if not isinstance(found, Mapping):
        raise ValueError(f"paper: expected None or a map with {', '.join(_PAPER)}, found {found!r}")  # noqa: TRY004
    for name in found:
        if name not in _PAPER:
            raise ValueError(f"paper: expected settings of learner.paper, found {name!r}; {_known(name, _PAPER)}")
    return found


def truth(estimator: object, name: str) -> bool:
    """Return the estimator's parameter of this name; ValueError unless it is True or False."""
    value: object = getattr(estimator, name)
    if not isinstance(value, bool | np.bool_):
        raise ValueError(f"{name}: expected True or False, found {value!r}")  # noqa: TRY004  a parameter
    return bool(value)


def whole_number(estimator: object, name: str, least: int = 0) -> int | None:
    """Return the estimator's parameter of this name; ValueError unless it is None or a whole number from `least` on."""
    value: object = getattr(estimator, name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, SupportsIndex) or (number := value.__index__()) < least:
        raise ValueError(f"{name}: expected None or a whole number from {least} on, found {value!r}")
    return number
