"""Settings of users' own weights, and of features for which there is no room."""

from pydantic import Field

from stream_apple.config.section import Section
from stream_apple.core.learner.options import Collisions, Options


class PersonalisationSettings(Section):
    """Whose weights there are, and whose they are when there is no room for all."""

    personalise: str = Field(
        default=Options.personalise,
        pattern=r"^\S*$",
        json_schema_extra={"expected": "a namespace without white space, 'key', or '' for no user"},
    )
    """Users with weights of their own beside the shared ones: the namespace whose features name the user, such as
    `user`, or `key` for the record's key. Use it where users come back and differ in what the same features mean to
    them: with 100 planted users, a tenth of whom mean the opposite, a quarter less spam passes at 1 % of false alarms;
    where nobody differs a third more does. A user without history gets the shared score. Partition the topic by user,
    else each partition learns a fragment of every user; `bits` has to hold users times features."""
    collisions: Collisions = Options.collisions
    """What becomes of features for which the table has no room. `evict`: the least useful makes room. `share`, for the
    methods `linear` and `quadratic`: the hashing trick, features of equal hash share a weight, which `inspect` can't
    name. With room both are the same. Use `share` for `quadratic` where products outnumber the slots by far (20news in
    2^18: test error .131, not .201); with `linear` it loses what `evict` keeps. The figures are in
    `docs/evaluating-on-files.md`."""
