"""What processes share that work until they are stopped: signals, errors, and how Python is set for them."""

import gc

from stream_apple.adapters.kafka.broker import KafkaBroker
from stream_apple.app.identity import explained
from stream_apple.config import Config
from stream_apple.errors import FencedError
from stream_apple.signals import Signals
from stream_apple.stream.loop.life_cycle import MemberLoop

SWITCH_S = 0.0002
"""So long a thread waits for the interpreter before it asks another to give way. Python's 5 ms outlast a batch."""

_OBJECTS_BEFORE_COLLECTING = 50_000  # more than were freed; ten batches of messages


def spare_the_collector() -> None:
    """Have Python's garbage collector look at new objects only, from here on, and at those seldom.

    A fetch makes thousands of messages, and every 100,000 of them the collector would look at all objects of all
    modules, 40 ms each time. A model, a batch and a message are freed without it, when nobody refers to them any more.
    """
    gc.freeze()  # imports and kernels
    gc.enable()
    gc.set_threshold(_OBJECTS_BEFORE_COLLECTING)


def run_until_stopped(loop: MemberLoop, kafka: KafkaBroker, config: Config, signals: Signals) -> None:
    """Run the loop until a signal comes; StreamAppleError if going on makes no sense."""

    def finish() -> None:
        loop.stop()
        kafka.shorten_deadline()
        if config.worker.on_stop == "leave":
            kafka.leave()

    signals.call(finish)
    spare_the_collector()
    try:
        loop.run()
    except FencedError as error:
        raise explained(error, config, kafka.open_s) from error
