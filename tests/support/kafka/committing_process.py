"""A process that does nothing but commit, as a worker does, until it is asked to stop or Kafka fails it.

`python committing_process.py BOOTSTRAP EXAMPLES OUTPUTS`. It writes `committed` after each commit; its exit code is
that of the error it leaves with.
"""

import signal
import sys
import time

from support.assignment import Recorder

from stream_apple.adapters.kafka.broker import KafkaBroker
from stream_apple.adapters.kafka.client_properties import Identity
from stream_apple.errors import BrokerError
from stream_apple.stream.log.ports import AbortableError, Committed


def main(bootstrap: str, examples: str, outputs: str) -> int:
    """Commit until told to stop."""
    broker = KafkaBroker({"bootstrap.servers": bootstrap}, Identity("committing", "one", "committing-one"), examples)
    stopping = False

    def stop(_number: int, _frame: object) -> None:
        nonlocal stopping
        print(f"asked {time.monotonic()}", flush=True)
        stopping = True
        broker.shorten_deadline()

    signal.signal(signal.SIGTERM, stop)
    assignment = Recorder()
    try:
        broker.join(assignment)
        while not assignment.owned:
            broker.fetch(1, 0.1)
        number = 0
        while not stopping:
            broker.begin()
            broker.send(outputs, 0, None, b"x", 0)
            broker.commit({0: Committed(number, "")})
            number += 1
            print("committed", flush=True)
    except AbortableError as error:
        print(f"doubt: {error}", flush=True)
        return 1
    except BrokerError as error:
        print(f"left: {error}", flush=True)
        return error.exit_code
    finally:
        broker.close()
        print(f"closed {time.monotonic()}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
