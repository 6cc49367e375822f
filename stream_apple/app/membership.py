"""The working life of a process that is a member of a group: from its first signal handler to its last error."""

from stream_apple.adapters.kafka.broker import KafkaBroker
from stream_apple.app.identity import explained
from stream_apple.app.interpreter import spare_the_collector
from stream_apple.config import Config
from stream_apple.errors import FencedError
from stream_apple.signals import Signals
from stream_apple.stream.loop.life_cycle import MemberLoop


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
