"""The sections `learner` and `learner.paper`, which are made of the declarations of a learner's options."""

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Self

from pydantic import Field, create_model, model_validator

from stream_apple.config.section import Boolean, Integer, Number, Section, when_text
from stream_apple.learners.apple.options import DECLARED, Declaration, IntegerBounds, Options

_FROM_TEXT = {int: Integer, float: Number, bool: Boolean}
_SETTINGS = {name: each for name, each in DECLARED.items() if each.option.section == "learner"}
_PAPER = {name: each for name, each in DECLARED.items() if each.option.section == "learner.paper"}


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


class LearnerSettings(_Declared):  # type: ignore[misc]  # what is made can't be followed
    """What is learned, and how fast."""

    paper: PaperSettings = PaperSettings()

    @model_validator(mode="after")
    def _fill(self) -> Self:
        options = self.options()
        for name, declaration in _SETTINGS.items():
            if declaration.default is None:
                object.__setattr__(self, name, getattr(options, name))  # what was left out, by the other settings
        return self

    @classmethod
    def of(cls, options: Mapping[str, Any]) -> Self:
        """Return the settings that give these options; ValueError if they are none. Other names are left out."""
        given = {name: value for name, value in options.items() if name in _SETTINGS}
        found: Self = cls.model_validate(given | {"paper": {name: options[name] for name in _PAPER if name in options}})
        return found

    def given(self) -> dict[str, Any]:
        """Return the settings that were given, by the names of the options."""
        found = {name: getattr(self, name) for name in self.model_fields_set & _SETTINGS.keys()}
        return found | {name: getattr(self.paper, name) for name in self.paper.model_fields_set}

    def identity(self) -> dict[str, Any]:
        """Return the settings by the names of the options: they name a model."""
        found = self.options().identity()
        return {name: found[name] for name in (*_SETTINGS, *_PAPER)}

    def options(self, max_features_per_example: int = Options.max_features_per_example) -> Options:
        """Return the learner's options; ValueError if they contradict each other."""
        return Options(
            **{name: getattr(self, name) for name in _SETTINGS},
            **{name: getattr(self.paper, name) for name in _PAPER},
            max_features_per_example=max_features_per_example,
        )


def named_namespaces(options: Options) -> Iterator[tuple[str, str]]:
    """Yield each namespace that an option names, after the option's name."""
    sizes, _ = options.ngrams_of_namespaces()
    return (("ngrams", name) for name, size in sizes.items() if name and size > 1)
