"""The section `learner`, and those in it, which are made of the declarations of the systems' options.

`[learner]` has the options of the system apple and says which system learns; the others have sections of their own.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Any, Self, cast

from pydantic import Field, create_model, model_validator

from stream_apple.config.section import Boolean, Integer, Number, Section, when_text
from stream_apple.learners.options import SYSTEMS, Declaration, IntegerBounds, SystemName

if TYPE_CHECKING:
    from stream_apple.learners.port import LearnerOptions  # which needs numpy

_FROM_TEXT = {int: Integer, float: Number, bool: Boolean}
_SETTINGS = SYSTEMS["apple"].in_section("learner")
_PAPER = SYSTEMS["apple"].in_section("learner.paper")
_OTHERS = {name: system.in_section("learner") for name, system in SYSTEMS.items() if name != "apple"}
"""The settings of the other systems, each of which has a section of its own."""
_SYSTEM_OF = {"paper": "apple", "tuples": "tuples", "hashed": "hashed"}
"""Section in `learner` -> the system whose settings it has."""


def field_of(declaration: Declaration) -> Any:  # noqa: ANN401  pydantic takes it for a default of any type
    """Return the default, bounds and notes of a setting, for pydantic."""
    option = declaration.option
    notes = {name: getattr(option, name) for name in ("unit", "expected", "expert")}
    extra = {name: note for name, note in notes.items() if note}
    if option.parse is not None:
        return Field(default_factory=dict, json_schema_extra=extra)
    return Field(
        default=declaration.default, pattern=option.pattern or None, json_schema_extra=extra, **_bounds_of(declaration)
    )


def _bounds_of(declaration: Declaration) -> dict[str, Any]:
    bounds = declaration.option.bounds
    if bounds is None:
        return {}
    closed = isinstance(bounds, IntegerBounds) or bounds.closed
    return {"ge" if closed else "gt": bounds.low, "le": bounds.high}


def _type_of(declaration: Declaration) -> Any:  # noqa: ANN401  any type
    parse = declaration.option.parse
    if parse is not None:
        table = dict[str, Annotated[Integer, Field(**_bounds_of(declaration))]]
        return Annotated[table, when_text(parse)]
    kind = _FROM_TEXT.get(declaration.kind, declaration.kind)
    return kind | None if declaration.default is None else kind


def _fields(settings: Mapping[str, Declaration]) -> Any:  # noqa: ANN401  create_model takes it
    return {name: (_type_of(each), field_of(each)) for name, each in settings.items()}


PaperSettings: Any = create_model(
    "PaperSettings",
    __base__=Section,
    __doc__="The paper's own algorithm: these settings are for `learner.mixture = false`.",
    **_fields(_PAPER),
)
_Declared: Any = create_model("_Declared", __base__=Section, **_fields(_SETTINGS))


TuplesSection: Any = create_model(
    "TuplesSection",
    __base__=Section,
    __doc__='Tuples of attributes: these settings are for `learner.system = "tuples"`.',
    **_fields(_OTHERS["tuples"]),
)
HashedSection: Any = create_model(
    "HashedSection",
    __base__=Section,
    __doc__='Weights shared by hash: these settings are for `learner.system = "hashed"`.',
    **_fields(_OTHERS["hashed"]),
)


class LearnerSettings(_Declared):  # type: ignore[misc]  # what is made can't be followed
    """What is learned, and how fast."""

    system: SystemName = "apple"
    """Which system learns. `apple`: a linear learner of features and of their products that prove useful while the
    stream runs; the other settings of this section, and those of `learner.paper`, are its own. `tuples`: all products
    of a few attributes, for up to some dozens of attributes; its settings are in `learner.tuples`. `hashed`: a linear
    learner whose features share weights by hash, with regularization and weights of each user's own; its settings are
    in `learner.hashed`. Only models of `apple` can be merged."""
    paper: PaperSettings = PaperSettings()
    tuples: TuplesSection = TuplesSection()
    hashed: HashedSection = HashedSection()

    @model_validator(mode="after")
    def _are_of_one_system(self) -> Self:
        defaults = _Declared()
        chosen = {f"learner.{name}": "apple" for name in _SETTINGS if getattr(self, name) != getattr(defaults, name)}
        for section, system in _SYSTEM_OF.items():
            found = getattr(self, section)
            default = type(found)()
            chosen |= {f"learner.{section}.{name}": system for name, value in found if value != getattr(default, name)}
        for setting, system in chosen.items():
            if system != self.system:
                raise ValueError(f"system: expected {system!r} with {setting}, found {self.system!r}")
        return self

    @model_validator(mode="after")
    def _fill(self) -> Self:
        options = self._options
        if self.system in _OTHERS:
            return self
        for name, declaration in _SETTINGS.items():
            if declaration.default is None:
                object.__setattr__(self, name, getattr(options, name))  # what was left out, by the other settings
        return self

    @classmethod
    def of(cls, options: Mapping[str, Any]) -> Self:
        """Return the settings that give these options; ValueError if they are none. Other names are left out."""
        if (system := options.get("system", "apple")) in _OTHERS:
            own = {name: options[name] for name in _OTHERS[system] if name in options}
            other: Self = cls.model_validate({"system": system, system: own})
            return other
        given = {name: value for name, value in options.items() if name in _SETTINGS}
        found: Self = cls.model_validate(given | {"paper": {name: options[name] for name in _PAPER if name in options}})
        return found

    def given(self) -> dict[str, Any]:
        """Return the settings that were given, by the names of the options."""
        if self.system in _OTHERS:
            own = getattr(self, self.system)
            return {name: getattr(own, name) for name in own.model_fields_set}
        found = {name: getattr(self, name) for name in self.model_fields_set & _SETTINGS.keys()}
        return found | {name: getattr(self.paper, name) for name in self.paper.model_fields_set}

    def identity(self) -> dict[str, Any]:
        """Return the system, and its settings by the names of the options: they name a model."""
        found = self._options.identity()
        del found["max_features_per_example"]  # a setting of another section
        return found

    def options(self, max_features_per_example: int | None = None) -> "LearnerOptions":
        """Return the options of the system that learns.

        max_features_per_example  a setting of another section; None: its default
        """
        if max_features_per_example in {None, self._options.max_features_per_example}:
            return self._options
        changed: Any = replace(cast("Any", self._options), max_features_per_example=max_features_per_example)
        return cast("LearnerOptions", changed)

    @cached_property
    def _options(self) -> "LearnerOptions":
        """The options; ValueError if they contradict each other."""
        if self.system in _OTHERS:
            return SYSTEMS[self.system].new_options(**dict(getattr(self, self.system)))
        return SYSTEMS["apple"].new_options(**{name: getattr(self, name) for name in _SETTINGS}, **dict(self.paper))


def named_namespaces(options: "LearnerOptions") -> Iterator[tuple[str, str]]:
    """Yield each namespace that an option names, after the option's name."""
    sizes, _ = options.ngrams_of_namespaces()
    return (("ngrams", name) for name, size in sizes.items() if name and size > 1)
