"""The settings of labels that are one of several classes."""

from pydantic import Field

from stream_apple.config.section import Integer, Section
from stream_apple.core.learner.options import CLASSES, Options


class ClassSettings(Section):
    """How many classes labels have."""

    classes: Integer = Field(default=Options.classes, ge=0, le=CLASSES.high)
    """With `loss = "softmax"` from 2 to 1000, else 0: labels are whole numbers from 0 to classes - 1, a prediction is
    the most probable class, with its probability. For labels that exclude each other and have no order; of two classes,
    `logistic` makes more, as it mixes six predictors where this mixes three. So `learning_rate` matters more: twice the
    default took 7 to 11 % off the loss of two sets with 10 and 20 classes, and added 1 % to that of one with 29. A slot
    takes 20 bytes more for each class (8 with method `linear`, 16 with others or `combine = "off"`): many classes need
    few `bits`. Time grows as classes times features.
    """
