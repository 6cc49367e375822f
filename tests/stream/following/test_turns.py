"""Turns: nobody sees a model half changed, questions go first, and learning is not starved."""

import threading

from support.clock import Clock
from support.waiting import wait_until

from stream_apple.stream.following.turns import GRACE_S, Turns


def test_nobody_sees_a_model_half_changed() -> None:
    """Two numbers that are equal between two turns are equal in each."""
    turns, model, torn = Turns(), [0, 0], []
    stopping = threading.Event()

    def learn() -> None:
        while not stopping.is_set():
            with turns.learning(0.0):
                model[0] += 1
                model[1] += 1

    learner = threading.Thread(target=learn)
    learner.start()
    try:
        for _ in range(2_000):
            with turns.asking():
                torn += [True] if model[0] != model[1] else []
    finally:
        stopping.set()
        learner.join()
    assert not torn
    assert model[0] > 0


def test_questions_go_first_for_a_while() -> None:
    """Right after an answer learning waits for the next question; and not for longer than it is patient."""
    clock = Clock(100.0)
    slept: list[float] = []

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        clock.now += seconds

    turns = Turns(lambda: clock.now, sleep)
    with turns.learning(1.0):
        assert not slept  # nobody has asked
    with turns.asking():
        pass
    with turns.learning(1.0):
        assert GRACE_S <= sum(slept) < 2 * GRACE_S
    slept.clear()
    with turns.asking():
        pass
    with turns.learning(0.0):
        assert not slept


def test_learning_waits_while_a_question_is_answered() -> None:
    """Even when its patience is over."""
    turns, order = Turns(), list[str]()
    with turns.asking():
        learner = threading.Thread(target=lambda: _learn(turns, order))
        learner.start()
        wait_until(learner.is_alive, "it had begun")
        order.append("answered")
    learner.join()
    assert order == ["answered", "learned"]


def _learn(turns: Turns, order: list[str]) -> None:
    with turns.learning(0.001):
        order.append("learned")
