"""Personal weights beside shared ones: the spam that is not caught where one percent of the ham may be lost.

Real mails with users are private (Weinberger et al. 2009 had 430,000 of them), so users are planted. What is planted,
and so what is found, says only whether personal weights can be learned beside shared ones, and from how many mails.
"""

from collections import Counter
from collections.abc import Iterator
from statistics import fmean
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_apple.core.batch import Batch, space_key
from stream_apple.learners.hashed.learner import HashedLearner
from stream_apple.learners.hashed.options import HashedOptions
from stream_apple.offline.evaluation import split
from stream_apple.offline.schedule import Schedule
from study.experiments.experiment import Experiment, Inquiry, StudyFinding, TableCell, slug
from study.preparation import load_set
from study.runs.one_epoch import learn_once, predictions_of

BITS = 24  # so that few of the products of users and words share a weight
NAMESPACE = "user"
PERCENT = 1
HISTORIES = (0, 1, 8, 32, 128)
"""Mails are told apart by how many their user had to learn from: at least so many, and fewer than the next."""
INVERTED_RANK = 4  # of each ten: the middle one, so that a tenth of the users has about a tenth of the mails


class Plan(NamedTuple):
    """One way to plant users; `inverted`: every tenth of them by activity has all labels the other way round."""

    users: int
    inverted: bool


PLANS = (Plan(100, inverted=True), Plan(1000, inverted=True), Plan(100, inverted=False))


class _Uncaught(NamedTuple):
    """How many mails the user of each spam had to learn from, and whether shared or personal weights missed it."""

    history: NDArray[np.int64]
    shared: NDArray[np.bool_]
    personal: NDArray[np.bool_]


class PlantedMails(NamedTuple):
    """Mails, and the key of each mail's user, uint64[n]."""

    mails: Batch
    users: NDArray[np.uint64]


def plant_users(batch: Batch, plan: Plan, seed: int) -> PlantedMails:
    """Give each example to one of the users, that of rank r with a probability in proportion to 1 / r (Zipf's law).

    The users' keys are drawn, as hashes would be, and are the same with each seed.
    """
    share = 1.0 / np.arange(1, plan.users + 1)
    owners = np.random.default_rng(seed).choice(plan.users, len(batch.labels), p=share / share.sum())
    keys = np.random.default_rng(plan.users).integers(1, 1 << 63, plan.users, np.uint64)
    labels = batch.labels
    if plan.inverted:
        labels = np.where(owners % 10 == INVERTED_RANK, -labels, labels)
    return PlantedMails(batch._replace(labels=labels), keys[owners])


def with_user_features(planted: PlantedMails) -> Batch:
    """Return the mails, each with a first feature, of value 1 and in the namespace of users, that names its user."""
    mails, first = planted.mails, planted.mails.indptr[:-1]
    return mails._replace(
        indptr=mails.indptr + np.arange(len(mails.indptr)),
        keys=np.insert(mails.keys, first, planted.users),
        values=np.insert(mails.values, first, np.float32(1.0)),
        spaces=np.insert(np.zeros(len(mails.keys), np.uint64), first, space_key(NAMESPACE)),
    )


def filter_threshold(scores: NDArray[np.float64], spam: NDArray[np.bool_], percent: int = PERCENT) -> float:
    """Return the lowest threshold such that at most so many percent of the ham have a score above it.

    What is above it is caught. Mails of equal score share their fate, so it may be well below the percentage.
    ValueError if there is no ham.
    """
    ham = np.sort(scores[~spam])[::-1]
    if not len(ham):
        raise ValueError("expected ham to set the threshold by, found none")
    allowed = len(ham) * percent // 100  # in integers: 0.29 * 100 is below 29
    return float(ham[allowed]) if allowed < len(ham) else -np.inf


def _run(inquiry: Inquiry) -> Iterator[StudyFinding]:
    for name, data_set in inquiry.sets.items():
        batch = load_set(data_set, inquiry.rows, inquiry.out / "sets")
        overview: list[tuple[TableCell, ...]] = []
        by_history: list[tuple[TableCell, ...]] = []
        for place, plan in enumerate(PLANS):
            found = []
            for seed in range(inquiry.seeds):
                inquiry.tell(name, place * inquiry.seeds + seed, len(PLANS) * inquiry.seeds)
                found.append(_uncaught(plant_users(batch, plan, seed), seed))
            overview.append((f"{plan.users}", plan.inverted, *_overview(found)))
            by_history += [(f"{plan.users}", plan.inverted, *row) for row in _by_history(found)]
        inquiry.tell(name, len(PLANS) * inquiry.seeds, len(PLANS) * inquiry.seeds)
        yield StudyFinding(
            f"uncaught-{slug(name)}",
            f"Spam not caught at {PERCENT} % of ham lost: {name}, planted users, mean of {inquiry.seeds} seeds",
            ("users", "every tenth inverts", "shared", "personal", "ratio", "least", "greatest"),
            tuple(overview),
            "with the 430,000 users of Weinberger et al., a ratio of 0.70 at best.",
        )
        yield StudyFinding(
            f"by-history-{slug(name)}",
            f"The same by how many mails the user had to learn from: {name}",
            ("users", "every tenth inverts", "mails to learn from", "spam", "shared", "personal", "ratio"),
            tuple(by_history),
            "with the real users, 0.35 for those with most mails.",
        )


def _uncaught(planted: PlantedMails, seed: int) -> _Uncaught:
    schedule = Schedule(seed=seed)
    missed = []
    for mails, namespace in ((planted.mails, ""), (with_user_features(planted), NAMESPACE)):
        trained, tested = split(mails, schedule)
        learner = HashedLearner(HashedOptions(loss="logistic", bits=BITS, personalise=namespace))
        learn_once(learner, trained)
        scores = predictions_of(learner, tested)
        spam = tested.labels > 0.0
        missed.append(scores[spam] <= filter_threshold(scores, spam))
    # Those of the batch with users, in which each mail's first feature names its user.
    mails_of = Counter(_users_of(trained).tolist())
    history = np.array([mails_of[user] for user in _users_of(tested)[spam].tolist()], np.int64)
    return _Uncaught(history, missed[0], missed[1])


def _users_of(mails: Batch) -> NDArray[np.uint64]:
    return mails.keys[mails.indptr[:-1]]


def _overview(found: list[_Uncaught]) -> tuple[TableCell, ...]:
    """Return the means of the shares that were missed and of their ratios, and the least and the greatest ratio."""
    shares = [(float(each.shared.mean()), float(each.personal.mean())) for each in found]
    # A seed with which shared weights catch all has no ratio.
    ratios = [personal / shared for shared, personal in shares if shared]
    shared, personal = (fmean(each) for each in zip(*shares, strict=True))
    return shared, personal, fmean(ratios) if ratios else None, min(ratios, default=None), max(ratios, default=None)


def _by_history(found: list[_Uncaught]) -> Iterator[tuple[TableCell, ...]]:
    """Yield a row for each class of histories, of the spam of all seeds together."""
    whole = _Uncaught(*map(np.concatenate, zip(*found, strict=True)))
    for least, above in zip(HISTORIES, (*HISTORIES[1:], None), strict=True):
        chosen = (whole.history >= least) & (whole.history < (above or np.inf))
        if chosen.any():
            shared, personal = float(whole.shared[chosen].mean()), float(whole.personal[chosen].mean())
            label = "0" if above == 1 else f"{least} or more" if above is None else f"{least} to {above - 1}"
            yield label, int(chosen.sum()), shared, personal, personal / shared if shared else None


EXPERIMENT = Experiment(_run, ("20news",))
