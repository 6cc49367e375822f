"""A clock that goes as a test wants it to."""

from typing import Generic, TypeVar

_Number = TypeVar("_Number", int, float)


class Clock(Generic[_Number]):
    """A function that returns `now`, which a test sets; each look moves it on by `tick` first."""

    def __init__(self, now: _Number, tick: _Number = 0) -> None:
        self.now: _Number = now
        self.tick: _Number = tick

    def __call__(self) -> _Number:
        """The time, in whatever unit the code under test takes its clock to have."""
        self.now += self.tick
        return self.now
