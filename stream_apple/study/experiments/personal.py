"""Personal weights beside shared ones: spam that is not caught at one percent of ham lost, with planted users."""

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_apple.core.learner.options import Options
from stream_apple.study.experiments.experiment import Experiment, Inquiry, StudyFinding, TableCell, slug
from stream_apple.study.logistic.hashing import AdaptiveLogistic
from stream_apple.study.logistic.planted_users import Mailbox, hashed_mails, plant_users
from stream_apple.study.logistic.spam import filter_threshold, uncaught_by_user
from stream_apple.study.logistic.trial import load_rows, parts_of, product_scores

BITS = 22
RATE = 0.3
PERCENT = 1
HISTORIES = (0, 1, 8, 32, 128)
"""Users are told apart by how many mails they have to learn from: at least so many, and fewer than the next."""


class _Plan(NamedTuple):
    """One way of planting users."""

    users: int
    inverted: bool


_PLANS = (_Plan(100, inverted=True), _Plan(1000, inverted=True), _Plan(100, inverted=False))

_Filter = Callable[[Mailbox, Mailbox, bool], NDArray[np.float64]]
"""(mails to learn, mails to score, with personal weights) -> scores of the latter, float64[n]."""


def _lecture(learned: Mailbox, scored: Mailbox, personal: bool) -> NDArray[np.float64]:  # noqa: FBT001
    """The study's own: hashed, AdaGrad."""
    model = AdaptiveLogistic(1 << BITS, RATE)
    model.learn(hashed_mails(learned, BITS, personal=personal))
    return model.predict(hashed_mails(scored, BITS, personal=personal))


def _product(learned: Mailbox, scored: Mailbox, personal: bool) -> NDArray[np.float64]:  # noqa: FBT001
    """The product's learner on the same features: the copies are features like any other, under names of 40 bits."""
    options = Options(method="linear", loss="logistic", bits=BITS)
    rows, others = (hashed_mails(each, 40, personal=personal) for each in (learned, scored))
    return product_scores(rows, others, options)


FILTERS: dict[str, _Filter] = {"AdaGrad, hashed": _lecture, "product": _product}
"""What is compared, a line each."""


class _Outcome(NamedTuple):
    """Of one filter on one planting, with a seed.

    uncaught  share of all spam
    by_user   user -> share of his
    """

    uncaught: float
    by_user: dict[int, float]


_Outcomes = list[tuple[_Outcome, _Outcome, NDArray[np.int64]]]
"""With each seed: shared weights alone, personal ones too, and how many mails each user had to learn from."""


def _run(inquiry: Inquiry) -> Iterator[StudyFinding]:
    for name, data_set in inquiry.sets.items():
        rows, keys = load_rows(data_set, inquiry.rows, inquiry.out / "sets")
        overview: list[tuple[TableCell, ...]] = []
        classes: list[tuple[TableCell, ...]] = []
        steps = len(_PLANS) * inquiry.seeds
        for place, plan in enumerate(_PLANS):
            found: dict[str, _Outcomes] = {label: [] for label in FILTERS}
            for seed in range(inquiry.seeds):
                inquiry.tell(name, place * inquiry.seeds + seed, steps)
                users = np.random.default_rng(seed)
                mails = plant_users(rows, keys, plan.users, users, inverted=plan.inverted)
                learned, scored = (mails.select(part) for part in parts_of(len(rows.labels), seed))
                history = np.bincount(learned.users, minlength=plan.users)
                for label, learn in FILTERS.items():
                    shared, personal = (_judged(learn(learned, scored, each), scored) for each in (False, True))
                    found[label].append((shared, personal, history))
            for label, outcomes in found.items():
                overview.append((label, plan.users, plan.inverted, *_overview(outcomes)))
                classes += [(label, plan.users, plan.inverted, *row) for row in _by_history(outcomes)]
        inquiry.tell(name, steps, steps)
        yield from _findings(name, inquiry.seeds, overview, classes)


def _judged(scores: NDArray[np.float64], scored: Mailbox) -> _Outcome:
    spam = scored.rows.labels > 0.5
    threshold = filter_threshold(scores, spam, PERCENT)
    by_user = uncaught_by_user(scores, spam, scored.users, threshold)
    return _Outcome(float((scores[spam] <= threshold).mean()), by_user)


def _overview(outcomes: _Outcomes) -> tuple[TableCell, ...]:
    """Shared, personal, ratio, its least and greatest; and shared, personal, ratio where each user counts once."""
    # A seed with which shared weights catch all has no ratio.
    ratios = [personal.uncaught / shared.uncaught for shared, personal, _ in outcomes if shared.uncaught]
    users = np.mean([[np.mean([*each.by_user.values()]) for each in outcome[:2]] for outcome in outcomes], axis=0)
    return (
        float(np.mean([shared.uncaught for shared, _, _ in outcomes])),
        float(np.mean([personal.uncaught for _, personal, _ in outcomes])),
        float(np.mean(ratios)) if ratios else None,
        min(ratios, default=None),
        max(ratios, default=None),
        *map(float, users),
        float(users[1] / users[0]) if users[0] else None,
    )


def _by_history(outcomes: _Outcomes) -> Iterator[tuple[TableCell, ...]]:
    """Class of users, how many there are, shared, personal, ratio: means over users, then over seeds."""
    for least, above in zip(HISTORIES, (*HISTORIES[1:], None), strict=True):
        means, counts = [], []
        for shared, personal, history in outcomes:
            members = [
                user for user in shared.by_user if history[user] >= least and (above is None or history[user] < above)
            ]
            counts.append(len(members))
            if members:
                means.append([np.mean([each.by_user[user] for user in members]) for each in (shared, personal)])
        if means:
            before, after = (float(each) for each in np.mean(means, axis=0))
            last = "or more" if above is None else f"to {above - 1}"
            label = "0" if above == 1 else f"{least} {last}"
            yield label, float(np.mean(counts)), before, after, after / before if before else None


def _findings(
    name: str, seeds: int, overview: list[tuple[TableCell, ...]], classes: list[tuple[TableCell, ...]]
) -> Iterator[StudyFinding]:
    yield StudyFinding(
        f"uncaught-{slug(name)}",
        f"Spam not caught at {PERCENT} % of ham lost: {name}, planted users, mean of {seeds} seeds",
        (
            "filter", "users", "every tenth inverts", "shared", "personal", "ratio", "least", "greatest",
            "shared, a user", "personal, a user", "ratio, a user",
        ),
        tuple(overview),
        "20news, AdaGrad, 4 seeds, 100 users: .87, .63, ratio .73 (.60 to .81); 1,000 users: ratio .81 to .92; nobody "
        "inverts: personal weights cost, .371 and .405. With the lecture's real users .70 of a baseline, at best.",
    )  # fmt: skip
    yield StudyFinding(
        f"by-history-{slug(name)}",
        f"The same by how many mails a user had to learn from: {name}, each user counts once",
        ("filter", "users", "every tenth inverts", "mails", "such users", "shared", "personal", "ratio"),
        tuple(classes),
        "20news, 100 users, 128 mails or more: .873 and .600. With real users .35 for those with most mails.",
    )


EXPERIMENT = Experiment(_run, ("20news",))
