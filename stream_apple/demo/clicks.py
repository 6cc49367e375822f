"""A made-up stream of ad impressions: who saw which ad where and when, and whether they clicked.

What decides a click is planted, so that it is known what there is to learn:

    alone     a little: some ads, pages and devices do better than others
    pairs     device x hour: phones on the way to work and home, desktops in office hours, tablets at night
              country x ad: what sells in one country does not in another
    triples   visitor x page x ad: an ad that fits the page draws new visitors and bores those who return

A linear model sees the first line only: the pairs and triples are balanced, so that no hour and no country is better
by itself. Weekday and browser mean nothing. Hours are the visitors' local time.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_apple.config.duration import DAY, HOUR
from stream_apple.records.message.example import Example

_CHUNK = 4096
_THURSDAY = 3  # 1 January 1970 was one

_ADS = ("shoes", "flights", "phones", "games", "wine", "tickets", "books", "insurance")
FIELDS: dict[str, tuple[str, ...]] = {
    "country": ("de", "in", "jp", "us", "br", "gb"),
    "device": ("phone", "desktop", "tablet"),
    "visitor": ("new", "returning"),
    "page": ("news", "sports", "travel", "food", "music", "weather"),
    "ad": _ADS,
    "browser": ("firefox", "chrome", "safari", "edge"),
    "hour": tuple(map(str, range(24))),
    "weekday": ("mon", "tue", "wed", "thu", "fri", "sat", "sun"),
}
"""Field -> its values. An example has one feature of each field, such as `country=de`."""
_NAMES = {field: [f"{field}={value}" for value in values] for field, values in FIELDS.items()}
_DRAWN = ("country", "device", "visitor", "page", "ad", "browser")
_HOURS_FROM_UTC = np.array((1, 5, 9, -6, -3, 0))

_BASE = -0.9
_ALONE = {
    "device": (0.5, -0.5, 0.3),
    "visitor": (-0.1, 0.1),
    "page": (-0.1, 0.1, 0.1, -0.1, 0.1, -0.1),
    "ad": (0.6, -0.6, 0.5, 0.7, -0.5, 0.5, -0.7, -0.5),
}
"""Field -> what each of its values adds to the log-odds of a click."""

_BUSY_HOURS = (
    (6, 7, 8, 17, 18, 19, 20, 21),
    (9, 10, 11, 12, 13, 14, 15, 16),
    (22, 23, 0, 1, 2, 3, 4, 5),
)
"""The busy hours of each device. They divide the day, and being in them counts twice as much as not: in the mean,
nothing is left."""
_BUSY, _IDLE = 2.4, -1.2

_LIKED_ADS = (
    ("wine", "books", "insurance", "flights"),
    ("phones", "tickets", "books", "insurance"),
    ("games", "phones", "flights", "wine"),
    ("shoes", "tickets", "games", "insurance"),
    ("shoes", "phones", "tickets", "games"),
    ("books", "wine", "flights", "shoes"),
)
"""The ads that each country likes: half of them, and each ad in half of the countries."""
_LIKED, _DISLIKED = 1.6, -1.6

_FITTING_ADS = (
    ("books", "insurance"),
    ("shoes", "tickets"),
    ("flights", "insurance"),
    ("wine", "books"),
    ("tickets", "phones"),
    ("flights", "shoes"),
)
"""The ads that fit each page."""
_FIT = 2.0
_TASTE_FOR_FITTING = (1.0, -1.0)
"""By how much each visitor likes an ad that fits."""


def _table(
    chosen: Sequence[Sequence[object]], values: Sequence[object], inside: float, outside: float
) -> NDArray[np.float64]:
    """Return `inside` where the row's choice holds the value, else `outside`: float64[len(chosen), len(values)]."""
    return np.array([[inside if value in row else outside for value in values] for row in chosen])


_DEVICE_HOUR = _table(_BUSY_HOURS, range(24), _BUSY, _IDLE)
_COUNTRY_AD = _table(_LIKED_ADS, _ADS, _LIKED, _DISLIKED)
_PAGE_AD = _table(_FITTING_ADS, _ADS, _FIT, 0.0)


class Impressions(NamedTuple):
    """n impressions.

    choices   field -> int64[n], index into the field's values
    log_odds  float64[n], of a click, by the rules above: what a perfect model would say
    clicked   bool[n], drawn from them
    """

    choices: dict[str, NDArray[np.int64]]
    log_odds: NDArray[np.float64]
    clicked: NDArray[np.bool_]

    def examples(self) -> Iterator[Example]:
        """Yield an example without a time for each impression, in order; label 1 is a click, 0 is none."""
        columns = [[_NAMES[field][index] for index in self.choices[field].tolist()] for field in FIELDS]
        for label, *features in zip(self.clicked.astype(float).tolist(), *columns, strict=True):
            yield Example(label, 1.0, None, dict.fromkeys(features, 1.0))


def impressions(timestamps_ms: NDArray[np.int64], rng: np.random.Generator) -> Impressions:
    """Return one impression at each of these times, int64[n] in milliseconds since 1970."""
    size = len(timestamps_ms)
    choices = {field: rng.integers(len(FIELDS[field]), size=size) for field in _DRAWN}
    local_ms = timestamps_ms + _HOURS_FROM_UTC[choices["country"]] * HOUR
    choices["hour"] = local_ms // HOUR % 24
    choices["weekday"] = (local_ms // DAY + _THURSDAY) % 7
    log_odds = np.full(size, _BASE)
    for field, effects in _ALONE.items():
        log_odds += np.array(effects)[choices[field]]
    log_odds += _DEVICE_HOUR[choices["device"], choices["hour"]]
    log_odds += _COUNTRY_AD[choices["country"], choices["ad"]]
    log_odds += _PAGE_AD[choices["page"], choices["ad"]] * np.array(_TASTE_FOR_FITTING)[choices["visitor"]]
    clicked = rng.random(size) < 1.0 / (1.0 + np.exp(-log_odds))
    return Impressions(choices, log_odds, clicked)


def clicks(count: int, seed: int, start_ms: int, length_ms: int) -> Iterator[Example]:
    """Yield `count` examples, evenly spaced over [start_ms, start_ms + length_ms); label 1 is a click, 0 is none."""
    rng = np.random.default_rng(seed)
    for first in range(0, count, _CHUNK):
        numbers = np.arange(first, min(first + _CHUNK, count))
        timestamps_ms = start_ms + numbers * length_ms // count
        chunk = impressions(timestamps_ms, rng)
        for example, timestamp_ms in zip(chunk.examples(), timestamps_ms.tolist(), strict=True):
            yield example._replace(timestamp_ms=timestamp_ms)
