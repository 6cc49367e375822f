"""The configuration file of a worker under test, in which a test names only what it is about."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any


def write_config(path: Path, bootstrap: str | None, **sections: Mapping[str, Any]) -> Path:
    """Write the configuration of a worker, whose HTTP port is any that is free, to `path`, which is returned.

    bootstrap  address of its cluster; None if the worker is to have it from elsewhere
    sections   settings by name, for each section that has any; with `topics`, the group is one of its own, too
    """
    preset: dict[str, dict[str, Any]] = {
        "kafka": {} if bootstrap is None else {"bootstrap.servers": bootstrap},
        "http": {"host": "127.0.0.1", "port": 0},
    }
    if "topics" in sections:
        preset["worker"] = {"group": f"group-of-{sections['topics']['examples']}"}
    lines = []
    for section in sorted({*preset, *sections}):
        lines.append(f"[{section}]")
        settings = {**preset.get(section, {}), **sections.get(section, {})}
        # JSON's keys, strings, numbers, truth values and lists are TOML's.
        lines += [f"{json.dumps(name)} = {json.dumps(value)}" for name, value in settings.items()]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path
