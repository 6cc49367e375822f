"""The page about every setting, made from the settings themselves: `make docs`.

    python -m stream_apple.config.reference docs/configuration.md

What a setting does is the docstring below it in `schema.py`, or below the learner's option that it is; type, default
and bounds are those that refuse a wrong value. `tests/test_documents.py` fails if the page is not what this module
makes.
"""

import ast
import inspect
import json
import sys
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

from stream_apple.config import sources
from stream_apple.config.learner_settings import LearnerSettings
from stream_apple.config.passed_through import DEFAULTS, OWNED
from stream_apple.config.schema import Config
from stream_apple.config.sources import variable
from stream_apple.config.validation_errors import SECTIONS, expected, keys_of_section, of_a_value
from stream_apple.learners.options import SYSTEMS

_IDENTITY = {"topics.examples", "worker.from_model"}
"""The settings that are part of a model's name, besides those in `Config.model_settings`."""

_DECLARED: dict[str, type] = {
    "learner": SYSTEMS["apple"].documented,
    "learner.paper": SYSTEMS["apple"].documented,
    "learner.tuples": SYSTEMS["tuples"].documented,
    "learner.hashed": SYSTEMS["hashed"].documented,
}
"""The class in which the settings of a section have their docstrings, if they are options of a learner."""

_PAGE = """\
# Configuration

Every setting: its type, default and bounds, and what it does. `make docs` makes this page from the code.

Every setting has a default, and the defaults work with a broker on localhost. Its value comes from the first of these
that has one:

1. an environment variable `STREAM_APPLE_<SECTION>__<KEY>`, with two underscores, such as `{variable}`;
2. the TOML file that `--config` names.

In either place `file:/path` stands for the content of that file, a regular one, without one newline at its end. Use
this for mounted secrets: passwords and keys must come from such a file or from the environment, and are refused in the
TOML file itself ([security](security.md)). In the environment, lists are separated by commas, or written as in TOML.
Unknown settings are refused, and so is every other variable that begins with `STREAM_APPLE_`, in capitals or not; the
message names the nearest known one. Every command refuses a configuration with faults: it ends with exit code 78 and
prints a line for each fault, with what was expected, what was found, and where it was written.

A duration is text with units, the largest first: `"250ms"`, `"5m"`, `"1h30m"`, `"14d"`. `stream-apple check` compares
the configuration with the cluster.

```toml
{example}```

**Part of the model**: a model made with one value can't be continued with another. To change such a setting, begin a
new `worker.group` ([operations](operations.md#changing-the-configuration)). To change one of the others, restart the
workers.

**Expert settings** stand apart at the end of their section, as few users need them.

{sections}
## kafka

Every property of librdkafka is passed to the clients under its own name, such as `"security.protocol" = "SASL_SSL"`; a
property that only consumers or only producers have goes to that client alone. In the name of a variable, dots are
underscores: `STREAM_APPLE_KAFKA__SASL_PASSWORD` sets `sasl.password`. Callbacks can't be set from text. The default is
`{bootstrap}`.

These properties are refused, because the worker sets them itself, or because what it promises depends on their value:

| property | why it is refused |
|---|---|
{owned}

For these the worker has defaults of its own, which you can replace. They change speed and memory, not results:

| property | consumer | producer | why |
|---|---|---|---|
| `batch.num.messages` | | 10000 | a batch of predictions is small |
| `check.crcs` | true | | a flipped bit would be learned |
| `compression.type` | | lz4 | |
| `fetch.max.bytes` | 2097152 | | the client keeps whole answers; counted for each broker in the formula for memory |
| `fetch.queue.backoff.ms` | 20 | | librdkafka's default leaves a drained queue empty for up to a second |
| `fetch.wait.max.ms` | 100 | | a partition that is taken up again may wait this long for others |
| `linger.ms` | | 20 | |
| `max.partition.fetch.bytes` | 1048576 | | |
| `message.max.bytes` | | 134217728 | the client counts uncompressed bytes, the broker compressed |
| `metadata.recovery.strategy` | none | none | else an outage loses the producer its coordinator; readers differ |
| `queue.buffering.max.kbytes` | | 32768 | at least one message; in the formula for [memory](operations.md#sizing) |
| `queue.buffering.max.messages` | | 100000 | |
| `queued.max.messages.kbytes` | 16384 | | counted in the formula for memory |
| `queued.min.messages` | 20000 | | |
| `reconnect.backoff.max.ms` | 2000 | 2000 | |
| `session.timeout.ms` | 45000 | | after this long without a sign of life, other workers get the partitions |
| `socket.timeout.ms` | 10000 | 10000 | a frozen broker is given up about as soon as the cluster does that |
| `transaction.timeout.ms` | | 45000 | a dead worker's transaction is aborted by the time its partitions move on |

A worker refuses values that can't work together at its start, before it fences a predecessor: `linger.ms` must be below
`message.timeout.ms` (or, if that is not set, `transaction.timeout.ms`), `heartbeat.interval.ms` below
`session.timeout.ms`, `transaction.timeout.ms` above `worker.commit_interval`, and `message.max.bytes` and
`queue.buffering.max.kbytes` must have room for the largest message that `limits` allow. The brokers have bounds for
`session.timeout.ms` and `transaction.timeout.ms`. `stream-apple check` compares them, if it may read the brokers'
settings (DESCRIBE_CONFIGS on the cluster). A worker that the brokers refuse has read nothing, and ends with exit code
78 and the bound.

## registry

The schema registry, for records that name one of its schemas: Avro, Protocol Buffers and JSON Schema
([wire format](wire-format.md#records-with-a-schema)). Every property of confluent-kafka's registry client is passed
to it under its own name; `url` is required. Without this section there is no registry. Whether there is one is part
of the model, its properties are not. The libraries come with the extra `registry`, which the image has.

```toml
[registry]
url = "https://registry:8081"
"ssl.ca.location" = "/etc/ssl/registry.pem"
"basic.auth.user.info" = "file:/run/secrets/registry"    # user:password
```

| property | what it is |
|---|---|
| `url` | addresses, separated by commas; if one fails, the next one is asked |
| `basic.auth.user.info` | `user:password` |
| `bearer.auth.credentials.source` and others that begin with `bearer.auth.` | tokens, fixed or of an OAuth server |
| `ssl.ca.location`, `ssl.certificate.location`, `ssl.key.location`, `ssl.key.password` | TLS |
| `proxy`, `timeout`, `max.retries`, `cache.capacity` | by default 10 s, no retries: the worker itself asks again |

## Other variables of the environment

| variable | what it does |
|---|---|
| `NUMBA_CACHE_DIR` | the folder of compiled kernels, by default beside the package; see [security](security.md#code) |
| `NUMBA_CPU_NAME` | the type of processor that kernels are compiled for, by default the machine's; `generic` for all |
| `NUMBA_CPU_FEATURES` | further instructions; set it to nothing to use what `stream-apple compile --target` made |
"""


def page() -> str:
    """Return the whole text of `docs/configuration.md`."""
    return _PAGE.format(
        variable=variable("worker", "id"),
        example=_example(),
        sections="\n".join(_section(name, model) for name, model in SECTIONS.items()),
        bootstrap=" ".join(f'"{name}" = {json.dumps(value)}' for name, value in DEFAULTS.items()),
        owned="\n".join(f"| `{name}` | {reason} |" for name, reason in OWNED.items()),
    )


def _example() -> str:
    """Return the defaults as a TOML file, without those that JSON and TOML write differently."""
    sections = {name: sources.flat(name, entries, "") for name, entries in Config().redacted().items()}
    text = ""
    for section, entries in ((name, each) for found in sections.values() for name, each in found.items()):
        lines = (
            f"{json.dumps(key) if '.' in key else key} = {json.dumps(setting.value)}\n"
            for key, setting in entries.items()
        )
        text += f"[{section}]\n" + "".join(lines) + "\n"
    return text.removesuffix("\n")


def _section(name: str, model: Any) -> str:  # noqa: ANN401  a class of settings
    learner = name.partition(".")[0] == "learner"
    about = dict(_docstrings(_DECLARED.get(name, model)))
    if model is LearnerSettings:
        about |= dict(_docstrings(model))
    properties = model.model_json_schema()["properties"]
    known = {key: of_a_value(properties[key]) for key in keys_of_section(name)}
    parts, defaults = Config().model_settings().get(name, {}), model().model_dump(mode="json")
    rows: dict[bool, list[str]] = {False: [], True: []}
    for key, facts in known.items():
        rows[facts.get("expert", False)].append(
            f"| `{key}` | {_type(facts)} | `{json.dumps(defaults[key])}` | {_unit(facts)} | {_bounds(facts)} | "
            f"{'yes' if learner or key in parts or f'{name}.{key}' in _IDENTITY else ''} | "
            f"{about[key]} |\n"
        )
    head = "| key | type | default | unit | bounds | part of the model | what it does |\n" + "|---" * 7 + "|\n"
    expert = f"\n### Expert settings of {name}\n\n{head}{''.join(rows[True])}" if rows[True] else ""
    return f"## {name}\n\n{inspect.getdoc(model)}\n\n{head}{''.join(rows[False])}{expert}"


def _docstrings(owner: type) -> Iterator[tuple[str, str]]:
    """Yield (field, the docstring below it) of a class; `_section` raises KeyError for a field that has none.

    Read from the source here, and not by pydantic when the class is made: every start of a worker would pay for it.
    """
    tree = ast.parse(inspect.getsource(sys.modules[owner.__module__]))
    (found,) = (node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == owner.__name__)
    for field, below in pairwise(found.body):
        if isinstance(field, ast.AnnAssign) and isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant):
            yield ast.unparse(field.target), " ".join(str(below.value.value).split())


def _type(facts: dict[str, Any]) -> str:
    if "enum" in facts:
        return "choice"
    if facts.get("unit") == "milliseconds":
        return "duration"
    return {"array": "list of text", "string": "text", "object": "table"}.get(facts["type"], str(facts["type"]))


def _unit(facts: dict[str, Any]) -> str:
    unit = str(facts.get("unit", ""))
    return "in the text" if unit == "milliseconds" else unit


def _bounds(facts: dict[str, Any]) -> str:
    text = expected(facts).removeprefix("a duration such as '250ms', '5m' or '1h30m', ")
    for kind in ("an integer of ", "an integer ", "a number "):
        text = text.removeprefix(kind)
    return text


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(page(), encoding="utf-8")
