"""How Python's interpreter is set for a process that works until it is stopped."""

import gc

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
