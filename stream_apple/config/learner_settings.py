"""The section `learner`: what is learned, and how. Defaults, choices and bounds are those of a learner's options."""

from typing import Annotated, Any, Self

from pydantic import Field, model_validator

from stream_apple.config.class_settings import ClassSettings
from stream_apple.config.feature_settings import DiscretisationSettings, NgramSettings, PersonalisationSettings
from stream_apple.config.growth_settings import GrowthSettings, TupleSettings
from stream_apple.config.regularisation_settings import RegularisationSettings
from stream_apple.config.section import Integer, Number, Section
from stream_apple.core.learner.options import (
    ALPHA,
    BITS,
    LEARNING_RATE,
    PARENTS,
    PRODUCT_BUDGET,
    Combine,
    Loss,
    Method,
    Options,
)


class MethodSettings(Section):
    """What features are, what is minimised, and how fast."""

    method: Method = Options.method
    """What is learned from: `apple` lets products of features grow; `linear` has none; `quadratic` has all products of
    two features, `cubic` also those of three; `tuples` the products of `order` features of different attributes, an
    attribute being what a name says before its first "=". For categories, and numbers in bins, of up to some dozens of
    attributes: errors on covertype were .165 with `order = 3`, .194 with `quadratic`, .201 with `apple`; on hands of
    cards .087 with pairs, .097, .255, and 0 with pairs and `warm_start`. For thousands of words: `apple`.
    """
    loss: Loss = Options.loss
    """What is minimised: `squared` for numbers; `logistic` for labels 1, and -1 or 0; `softmax` for labels that are one
    of `classes`."""
    combine: Combine | None = None
    """What is published. `mix`: six predictors learn, and their mixture is never noticeably worse than the linear one,
    at any learning rate. `off`: the plain learner of the paper, and of models made before this setting was there; the
    only choice, and the default, of the other methods."""
    bits: Annotated[Integer, Field(ge=BITS.low, le=BITS.high)] | None = None
    """The table of each partition has 2^bits slots of 32 bytes, one for each monomial; with `combine = "mix"` a base
    feature takes 16 bytes more. The default is 24 with method `cubic`, and 22 with `order` above 2."""
    alpha: Number = Field(default=Options.alpha, gt=ALPHA.above, le=ALPHA.high)
    """An epoch's end adds parents * s^alpha parents, where s is the mean number of features of an example."""
    parents: Annotated[Number, Field(gt=PARENTS.above, le=PARENTS.high)] | None = None
    """See `alpha`. The default is 1 with `combine = "off"`."""
    product_budget: Annotated[Integer, Field(ge=PRODUCT_BUDGET.low, le=PRODUCT_BUDGET.high)] | None = None
    """How many products of parents with features an example may have in the mean: time is proportional to it. When it
    is used up, the parents that earn least make room. The default is 500 with `discretise = "auto"`. 0: no limit, the
    default and only choice of `combine = "off"`."""
    learning_rate: Number = Field(default=Options.learning_rate, gt=LEARNING_RATE.above, le=LEARNING_RATE.high)
    """The size of the adaptive update's steps. With `combine = "mix"` it hardly matters."""


class LearnerSettings(
    RegularisationSettings,
    ClassSettings,
    NgramSettings,
    PersonalisationSettings,
    TupleSettings,
    GrowthSettings,
    DiscretisationSettings,
    MethodSettings,
):
    """What is learned, and how fast."""

    @model_validator(mode="after")
    def _fill(self) -> Self:
        options = self.options()
        for name in ("combine", "bits", "parents", "product_budget", "order", "selection", "bins", "reservoir"):
            object.__setattr__(self, name, getattr(options, name))  # what was left out, by the other settings
        return self

    def identity(self) -> dict[str, Any]:
        """What of it names a model: as of its options, without a selection that goes by the others.

        That was an option, and in no name, before it was a setting.
        """
        options = self.options()
        found = options.identity()
        if self.selection == options.usual_selection:
            found.pop("selection", None)
        return {name: found[name] for name in type(self).model_fields if name in found}

    def options(self, max_features_per_example: int = Options.max_features_per_example) -> Options:
        """Of the learner; ValueError if they contradict each other."""
        return Options(
            **{name: getattr(self, name) for name in LearnerSettings.model_fields},
            max_features_per_example=max_features_per_example,
        )
