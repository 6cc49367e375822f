"""The settings of labels that are one of several classes."""

from typing import Annotated

from pydantic import Field

from stream_apple.config.section import Integer, Section
from stream_apple.core.learner.options import CLASSES, Options


class ClassSettings(Section):
    """How many classes labels have."""

    classes: Annotated[Integer, Field(ge=0, le=CLASSES.high, json_schema_extra={"since": "0.2.0"})] = Options.classes
    """With `loss = "softmax"`, from 2 on: labels are whole numbers from 0 to classes - 1; predictions are the most
    probable class, with its probability. A slot takes 20 bytes more for each class, 8 with method `linear`, 16 with
    the others. TBD"""
