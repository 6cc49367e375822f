"""Joins of two whole logs, written for being read: what the joiner has to give, by two ways that share nothing with it.

`joined_by_times` knows no clock and no memory: an impression has the outcomes of its id whose times are in its window.
It is right where all records reach their log within the tolerance. `joined_in_sequence` holds for any logs: it makes
one sequence of the two as `docs/late-labels.md` says, word for word, and looks through all that is held each time.
"""

import json
from collections.abc import Sequence
from functools import cache
from typing import Any, Literal, NamedTuple

import msgpack

from stream_apple.stream.log.ports import Record


class Rule(NamedTuple):
    """Of a join; times in milliseconds."""

    wait: int
    tolerance: int
    default: float | None
    several: Literal["first", "last", "sum", "max"] = "last"


class Example(NamedTuple):
    """What an impression becomes: key, content and time of a record."""

    key: bytes | None
    content: dict[str, Any]
    time: int


class Joined(NamedTuple):
    """Of a partition: the examples, and the offsets of dead letters by their topic."""

    examples: list[Example]
    refused_impressions: list[int]
    refused_outcomes: list[int]


def content_of(value: bytes | None) -> dict[str, Any]:
    """What a record holds, in JSON or msgpack."""
    assert value is not None
    return dict(_content_of(value))


@cache
def _content_of(value: bytes) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(value) if value.lstrip().startswith(b"{") else msgpack.unpackb(value)
    return found


def _labelled(impression: Record, outcomes: Sequence[Record], rule: Rule) -> Example | None:
    content = content_of(impression.value())
    found = sorted(outcomes, key=lambda each: (each.timestamp()[1], each.offset()))
    said = [content_of(each.value()) for each in found]
    if said and rule.several == "sum":
        content |= said[-1] | {"label": float(sum(each["label"] for each in said))}
    elif said and rule.several == "max":
        content |= max(said, key=lambda each: each["label"])
    elif said:
        content |= said[0 if rule.several == "first" else -1]
    elif content.get("label") is None:
        if rule.default is None:
            return None
        content["label"] = rule.default
    return Example(impression.key(), content, impression.timestamp()[1])


def _bound(impression: Record, heartbeats: Sequence[Record]) -> int:
    covering = [each for each in heartbeats if content_of(each.value())["heartbeat"] > impression.offset()]
    times = [each.timestamp()[1] for each in covering[:1]]
    return min([impression.timestamp()[1], *times])


def _is_too_far_ahead(impression: Record, bound: int) -> bool:
    return (impression.timestamp()[1] - bound) / 86_400_000 > 6


def _is_heartbeat(record: Record) -> bool:
    return "heartbeat" in content_of(record.value())


def _judged(
    rule: Rule,
    impressions: Sequence[Record],
    outcomes: Sequence[Record],
    bounds: Sequence[Record],
    shown: int,
    time: int,
) -> str:
    """What becomes of the first of these impressions, which is ahead of `shown`.

    bounds  the heartbeat by which its time is limited, if there is one
    """
    impression, others = impressions[0], impressions[1:]
    next_ones = [each for each in outcomes[:10_000] if _is_heartbeat(each)][:1]
    if not next_ones and len(outcomes) < 10_000:
        return "not decided"
    if next_ones:
        below = content_of(next_ones[0].value())["heartbeat"]
        if impression.offset() >= below:
            return "waits"
        others = [each for each in others if each.offset() < below]
    latest = [each.timestamp()[1] + rule.tolerance for each in next_ones]
    if any(impression.timestamp()[1] > each.timestamp()[1] + rule.tolerance for each in (*bounds, *next_ones)):
        return "refused"
    votes = 0
    for each in others[:1000]:
        at = each.timestamp()[1]
        if any(at > most for most in latest):
            continue
        votes += 1 if at >= time - rule.tolerance else -1 if at >= shown - rule.tolerance else 0
        if votes in {100, -2}:
            break
    return "refused" if votes < 0 else "accepted"


def joined_by_times(rule: Rule, impressions: Sequence[Record], outcomes: Sequence[Record]) -> list[Example]:
    """The examples of two logs in which nothing is malformed or late."""
    heartbeats = [each for each in outcomes if _is_heartbeat(each)]
    said: dict[Any, list[Record]] = {}
    for each in outcomes:
        said.setdefault(content_of(each.value()).get("id"), []).append(each)
    found = []
    for impression in impressions:
        time = _bound(impression, heartbeats)
        window = range(time - rule.tolerance, time + rule.wait + 1)
        own = said.get(content_of(impression.value())["id"], ())
        found.append(_labelled(impression, [each for each in own if each.timestamp()[1] in window], rule))
    return [example for example in found if example is not None]


def joined_at_once(rule: Rule, impressions: Sequence[Record], outcomes: Sequence[Record]) -> list[Example]:
    """The same where impressions are sent on their first outcome, that of the log; in the order of the impressions."""
    heartbeats = [each for each in outcomes if _is_heartbeat(each)]
    found = []
    for impression in impressions:
        time, name = _bound(impression, heartbeats), content_of(impression.value())["id"]
        if _is_too_far_ahead(impression, time):
            continue
        window = range(time - rule.tolerance, time + rule.wait + 1)
        own = [
            each for each in outcomes if content_of(each.value()).get("id") == name and each.timestamp()[1] in window
        ]
        found.append(_labelled(impression, own[:1], rule))
    return [example for example in found if example is not None]


def joined_in_sequence(
    rule: Rule, impressions: Sequence[Record], outcomes: Sequence[Record], heartbeats: int = 50_000
) -> Joined:
    """What the sequence of two well-formed logs gives, as far as it is decided.

    heartbeats  how many of a window are kept
    """
    now, votes, rival, taken, shown = -1, 0, -1, 0, -1
    hold = rule.wait + 3 * rule.tolerance
    # Of each outcome or heartbeat: the record, and the clock when its time had come; None before.
    held: list[list[Any]] = []
    jumped = beat = -1
    joined = Joined([], [], [])
    for number, impression in enumerate(impressions):
        fate = ""
        while True:
            # Of those that do not cover it, each was in the log before it.
            beats = [(each, since) for each, since, _ in held if _is_heartbeat(each)]
            for each, since in beats:
                if content_of(each.value())["heartbeat"] > impression.offset():
                    break
                shown = max(shown, since)
            time = _bound(impression, [each for each, _ in beats])
            if taken == len(outcomes):
                return joined
            entry = outcomes[taken]
            at, after = entry.timestamp()[1], (now, votes, rival)
            if _is_heartbeat(entry):
                after = (at if now > at + rule.tolerance else max(now, at), 0, -1)
            elif now >= 0 and at <= now + rule.tolerance:
                if at >= now - rule.tolerance:
                    after = (max(now, at), max(votes - 1, 0), rival)
            else:
                agrees = votes > 0 and abs(at - rival) <= rule.tolerance
                after = (
                    (now, votes + 1, max(at, rival)) if agrees else (now, votes - 1, rival) if votes else (now, 1, at)
                )
                if after[1] >= 100:
                    after = (after[2], 0, -1)
            covers = content_of(entry.value()).get("heartbeat", impression.offset() + 1)
            is_old = not _is_heartbeat(entry) and at < after[0] - rule.wait - rule.tolerance
            if after[0] > time + rule.wait + rule.tolerance and covers > impression.offset() and not is_old:
                break
            in_the_way = after[0] > shown + rule.wait + rule.tolerance and time > shown + rule.tolerance
            if in_the_way and covers > impression.offset() and not is_old:
                bounds = [each for each, _ in beats if content_of(each.value())["heartbeat"] > impression.offset()][:1]
                fate = _judged(rule, impressions[number:], outcomes[taken:], bounds, shown, time)
                if fate == "not decided":
                    return joined
                if fate == "refused":
                    break
                if fate == "accepted":
                    shown = time
            taken += 1
            if not _is_heartbeat(entry) and at < now - hold:
                joined.refused_outcomes.append(entry.offset())
                continue
            back, jumps = after[0] < now, after[0] > now + rule.tolerance and not _is_heartbeat(entry)
            now, votes, rival = after
            jumped = now if jumps else jumped
            shown = min(shown, now) if back else shown
            counts = not _is_heartbeat(entry) or not beat <= at < beat + hold // heartbeats
            if _is_heartbeat(entry) and counts:
                beat = at
            held += [[entry, None, now]] if counts else []
            for each in held:
                if each[1] is None and (_is_heartbeat(entry) or each[0].timestamp()[1] <= now):
                    each[1] = now
                elif each[1] is not None and back:
                    each[1] = min(each[1], now)
            while held and (held[0][1] if held[0][1] is not None else max(held[0][2], jumped)) < now - hold:
                record, since, _ = held.pop(0)
                if since is None:
                    joined.refused_outcomes.append(record.offset())
        if fate == "refused":
            joined.refused_impressions.append(impression.offset())
            continue
        shown = max(shown, time)
        if now > time + rule.wait + 2 * rule.tolerance or _is_too_far_ahead(impression, time):
            joined.refused_impressions.append(impression.offset())
            continue
        name = content_of(impression.value())["id"]
        own = [each for each, _, _ in held if content_of(each.value()).get("id") == name]
        window = range(time - rule.tolerance, time + rule.wait + 1)
        example = _labelled(impression, [each for each in own if each.timestamp()[1] in window], rule)
        if example is not None:
            joined.examples.append(example)
    return joined
