"""The settings of labels that are one of several classes."""

from typing import Annotated

from pydantic import Field

from stream_apple.config.section import Integer, Section
from stream_apple.core.learner.options import CLASSES, Options


class ClassSettings(Section):
    """How many classes labels have."""

    classes: Annotated[Integer, Field(ge=0, le=CLASSES.high, json_schema_extra={"since": "0.2.0"})] = Options.classes
    """With `loss = "softmax"` from 2 to 1000, else 0: labels are whole numbers from 0 to classes - 1, and a prediction is
    the most probable class, with its probability. For labels that exclude each other and have no order; two classes are
    better told apart by `logistic`, which mixes six predictors where this mixes three. So `learning_rate` matters: with
    10 to 20 classes, one pass over 2,000 to 19,000 examples had 0 to 3 % wrong answers fewer, and a sixth of the loss
    less, at 2 than at 0.5. A slot of the table takes 20 bytes more for each class (8 with method `linear`, 16 with the
    others or `combine = "off"`), so many classes need few `bits`; time grows as classes * features."""
