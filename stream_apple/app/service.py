"""The parts that all long-running processes share: signals, errors, and the settings of the Python interpreter."""

import gc

from stream_apple.adapters.kafka.broker import KafkaBroker
from stream_apple.adapters.kafka.topic_watch import TopicWatch
from stream_apple.app.identity import explained
from stream_apple.config import Config
from stream_apple.errors import FencedError
from stream_apple.signals import Signals
from stream_apple.stream.loop.life_cycle import MemberLoop

SWITCH_S = 0.0002
"""Seconds that a thread waits for the interpreter before another must give way. Python's 5 ms exceed a batch's time."""

_OBJECTS_BEFORE_COLLECTING = 50_000  # allocated minus freed objects; ten batches of messages


def spare_the_collector() -> None:
    """Have Python's garbage collector examine only new objects, from here on, and seldom.

    A fetch makes thousands of messages, and after every 100,000 the collector would examine all objects of all modules,
    which takes 40 ms. Models, batches and messages need no collector: they are freed with their last reference.
    """
    gc.freeze()  # imports and kernels
    gc.set_threshold(_OBJECTS_BEFORE_COLLECTING)


def run_until_stopped(
    loop: MemberLoop, kafka: KafkaBroker, config: Config, signals: Signals, topics: TopicWatch
) -> None:
    """Run the loop until a signal comes; StreamAppleError if the loop can't continue, or a topic is deleted."""

    def stop() -> None:
        loop.stop()
        kafka.shorten_deadline()

    def finish() -> None:
        stop()
        if config.worker.on_stop == "leave":
            kafka.leave()

    signals.call(finish)
    topics.stop_worker = stop
    spare_the_collector()
    try:
        with topics:
            loop.run()
    except FencedError as error:
        raise explained(error, config, kafka.open_s) from error
    finally:
        topics.raise_if_gone()
