"""The shape of the package: who may import whom, and who may touch the outside.

A package here is a folder of `stream_apple`, or a module of it that has directions of its own. From the bottom:

    core  <-  records, learners  <-  stream  <-  monitoring  <-  adapters, http  <-  app  <-  cli

http shows what is monitored; the adapters of Kafka know what a broker must do, and what is committed.
Whoever watches the loop is handed to it, so stream knows of nobody who measures. Inside stream the folders are layers,
each of which knows those below it alone: STREAM_LAYERS.

offline learns from files, with core and files alone; files uses core.
library is for those who write Python, as cli is for those who type; nothing imports it but what is public.

The study lies next to the package and compares methods by means of it. It may import whatever the package has; nothing
in the package imports the study. STUDY_LAYERS are its own layers.
"""

import ast
import subprocess
import sys
from collections.abc import Iterator

import pytest
from support.source_files import FILES, PACKAGE, ROOT, STUDY_FILES, dotted_name, part_of, tree_of

from stream_apple.learners.losses import LOSSES

# What the rest of the package may import of `learners`: the port, what makes learners and options, and the types that
# the port speaks of. Nobody reaches behind the port, into a system.
PORT = {
    "port": "what a learner is",
    "merging_port": "how models are merged",
    "systems": "new learners, and how models of their system are merged",
    "options": "the options of all systems, as they are declared",
    "scores": "what a learner writes of rows",
    "losses": "which losses there are, and what their labels are",
    "loss_functions": "losses of scores, and what scores stand for",
    "state": "the state of a learner, and its blocks",
    "state_digest": "the digest of a state",
    "label_units": "the units of a learner's labels",
    "progress": "how scores are judged",
}
_LEARNERS = {
    "learners",
    "learners.merging_port",
    "learners.options",
    "learners.port",
    "learners.progress",
    "learners.systems",
}
_CORE = {"core", "records.message", "records"} | _LEARNERS
_GROUND = {"config", "errors", "untrusted"}
# The folders of `stream`, from the bottom to the top; those of one layer know nothing of each other.
STREAM_LAYERS: tuple[tuple[str, ...], ...] = (
    ("log",),
    ("positions",),
    ("model",),
    ("partitions",),
    ("snapshots", "learning"),
    ("merging",),
    ("walk",),
    ("loop", "verification", "following"),
    ("joining",),
)
_STREAM = {f"stream.{folder}" for layer in STREAM_LAYERS for folder in layer}

# The folders of `study`, from the bottom to the top; its other modules are the bottom, and its command is the top.
STUDY_LAYERS = ("", "runs", "report", "experiments", "__main__")

# Package -> the packages that it may import, itself left out.
ALLOWED: dict[str, set[str]] = {
    "errors": set(),
    "logs": {"terminal"},
    "terminal": set(),
    "nearest_names": set(),
    "whole_files": {"errors"},
    "signals": set(),
    "untrusted": set(),
    # Start-up reads the configuration before numpy is loaded: of the learner, it may know the bounds of options alone.
    "config": {
        "records",
        "learners",
        "learners.options",
        "learners.port",
        "errors",
        "nearest_names",
        "untrusted",
    },
    "core": {"errors"},
    "records.message": {"core", "errors"},
    "records": {"core", "records.message", "errors"},
    # What learners share: scores, losses, how scores are judged, how options are declared.
    "learners": {"core", "errors"},
    "learners.progress": {"core", "learners"},
    "learners.base_learner": {"core", "learners", "learners.progress"},
    # What everything else knows of a learner.
    "learners.port": {"core", "learners", "learners.progress"},
    "learners.merging_port": {"learners", "learners.port", "errors"},
    "learners.options": {
        "learners",
        "learners.port",
        "learners.apple.options",
        "learners.hashed.options",
        "learners.tuples.options",
    },
    "learners.systems": {
        "core",
        "learners",
        "learners.port",
        "learners.merging_port",
        "learners.apple.merging",
        "errors",
    },
    "learners.apple": {
        "core",
        "learners",
        "learners.base_learner",
        "learners.port",
        "learners.progress",
        "learners.apple.kernels",
        "learners.apple.multiclass",
        "learners.apple.options",
        "learners.apple.preparation",
        "learners.apple.state",
        "errors",
    },
    "learners.apple.merging": {
        "core",
        "learners",
        "learners.merging_port",
        "learners.port",
        "learners.apple",
        "learners.apple.kernels",
        "learners.apple.multiclass",
        "learners.apple.options",
        "learners.apple.state",
        "errors",
    },
    "learners.apple.preparation": {"core", "learners", "learners.apple.options", "learners.port", "errors"},
    "learners.apple.state": {"core", "learners", "errors"},
    "learners.apple.kernels": {"core", "learners", "learners.apple.state", "errors"},
    "learners.apple.multiclass": {"core", "learners", "learners.apple.kernels", "learners.apple.state"},
    "learners.apple.options": {"learners"},
    "learners.hashed": {
        "core",
        "learners",
        "learners.base_learner",
        "learners.hashed.options",
        "learners.port",
        "learners.progress",
        "errors",
    },
    "learners.hashed.options": {"learners"},
    "learners.tuples": {
        "core",
        "learners",
        "learners.base_learner",
        "learners.port",
        "learners.progress",
        "learners.tuples.options",
        "errors",
    },
    "learners.tuples.options": {"learners"},
    "stream": set(),
    "stream.log": {"config", "records", "errors"},
    "stream.positions": {"records.message", "stream.log"} | _GROUND,
    "stream.model": _CORE | {"records", "stream.log", "stream.positions", "config", "errors"},
    "stream.partitions": {"records", "stream.log", "stream.model", "stream.positions", "config", "errors"},
    "stream.learning": {"stream.log", "stream.model", "stream.partitions", "config"},
    "stream.snapshots": _CORE | {"stream.log", "stream.model", "stream.partitions", "stream.positions"} | _GROUND,
    "stream.merging": _CORE
    | {
        "stream.learning",
        "stream.log",
        "stream.model",
        "stream.partitions",
        "stream.positions",
        "stream.snapshots",
        "errors",
        "untrusted",
    },
    # How models are learned again, by whoever reads a log with a model.
    "stream.walk": _CORE
    | {"stream.log", "stream.merging", "stream.model", "stream.positions", "stream.snapshots", "errors", "untrusted"},
    "stream.verification": _CORE
    | {"stream.log", "stream.model", "stream.positions", "stream.snapshots", "stream.walk", "errors"},
    # Replicas: walks without an end.
    "stream.following": _CORE | {"stream.log", "stream.model", "stream.positions", "stream.walk", "errors"},
    # What the loop tells: whoever watches it knows this, and not the loop.
    "stream.loop.member_watchers": {"stream.partitions"},
    "stream.loop.watchers": _CORE
    | {"stream.log", "stream.loop.member_watchers", "stream.model", "stream.partitions", "stream.snapshots"},
    "stream.loop": _CORE
    | {
        "stream.learning",
        "stream.log",
        "stream.loop.member_watchers",
        "stream.loop.watchers",
        "stream.merging",
        "stream.model",
        "stream.partitions",
        "stream.positions",
        "stream.snapshots",
        "errors",
    },
    # It has no model; what it does when, and what of it is a dead letter, is as in the worker.
    "stream.joining": {
        "core",
        "records.message",
        "records",
        "config",
        "stream.log",
        "stream.loop",
        "stream.loop.member_watchers",
        "stream.model",
        "stream.partitions",
        "errors",
        "untrusted",
    },
    "monitoring": _CORE
    | {
        "stream.joining",
        "stream.log",
        "stream.loop.member_watchers",
        "stream.loop.watchers",
        "stream.merging",
        "stream.model",
        "stream.partitions",
        "stream.positions",
        "stream.snapshots",
        "config",
        "errors",
    },
    # It knows replicas, which the other numbers do not.
    "monitoring.serving_metrics": {"monitoring", "stream.following"},
    # Two groups compared by what they have published, which is read through a port.
    "comparing": _CORE | {"stream.log", "monitoring", "errors", "untrusted"},
    "monitoring.comparison_metrics": {"monitoring", "comparing"},
    "adapters": set(),
    "adapters.kafka": _CORE | {"stream.log", "config", "errors"},
    "adapters.kafka.preflight": _CORE
    | {
        "adapters.kafka",
        "stream.joining",
        "stream.log",
        "stream.partitions",
        "stream.positions",
        "stream.snapshots",
        "config",
        "errors",
    },
    "adapters.registry": {"records.message", "records", "config", "errors"},
    "http": _CORE | {"monitoring", "stream.partitions", "config", "errors"},
    "http.serving": _CORE
    | {
        "http",
        "monitoring",
        "monitoring.serving_metrics",
        "stream.following",
        "stream.model",
        "stream.walk",
        "errors",
    },
    "app": _CORE
    | _STREAM
    | {
        "adapters.kafka",
        "adapters.kafka.preflight",
        "adapters.registry",
        "http",
        "http.serving",
        "comparing",
        "config",
        "monitoring",
        "nearest_names",
        "monitoring.comparison_metrics",
        "monitoring.serving_metrics",
        "stream.loop.member_watchers",
        "stream.loop.watchers",
        "signals",
        "errors",
        "untrusted",
        "whole_files",
    },
    "files": _CORE | {"errors", "nearest_names"},
    "offline": _CORE | {"files", "errors"},
    "offline.sharding": _CORE | {"offline", "errors"},
    "demo": _CORE | {"adapters.kafka", "config", "errors"},
    "demo.loop": _CORE | {"config", "demo", "errors"},
    "cli": _CORE
    | _STREAM
    | {
        "adapters.kafka",
        "adapters.kafka.preflight",
        "http",
        "app",
        "cli.options",
        "comparing",
        "config",
        "demo",
        "demo.loop",
        "errors",
        "files",
        "logs",
        "monitoring",
        "offline",
        "offline.sharding",
        "signals",
        "nearest_names",
        "terminal",
        "whole_files",
    },
    "cli.options": {
        "config",
        "records",
        "errors",
        "learners",
        "learners.options",
        "learners.port",
        "files",
        "terminal",
        "whole_files",
    },
    # The interfaces for Python: what `cli` is for those who type.
    "library": _CORE
    | _STREAM
    | {
        "adapters.kafka",
        "app",
        "config",
        "errors",
        "monitoring",
        "nearest_names",
    },
    "river": {"library"},
    "__main__": {"cli"},
    "__init__": {"library"},
}

# Libraries that only these parts may import: technology stays at the edge.
HOMES = {
    "confluent_kafka": {"adapters", "demo"},
    "prometheus_client": {"monitoring", "http", "demo"},
    "msgspec": {"records", "http"},
    "starlette": {"http"},
    "uvicorn": {"http"},
    "pydantic": {"config", "untrusted"},
    "pydantic_core": {"config"},
    "click": {"cli"},
    "rich": {"cli", "demo"},
    "numba": {"core", "records", "learners"},
    "xxhash": {"core", "records", "learners", "stream"},
    "zstandard": {"stream"},
    "structlog": {"logs", "stream", "monitoring", "adapters", "http", "app", "signals", "cli"},
    "matplotlib": {"offline"},
    "vowpalwabbit": set(),
    "socket": {"adapters", "http", "app"},
    "http": {"http", "demo"},
    "logging": {"logs", "adapters", "http"},
    "signal": {"signals", "cli", "demo"},
    "tomllib": {"config"},
    "fastavro": {"adapters", "records"},
    "google": {"adapters"},
    "grpc_tools": {"adapters"},
    "sklearn": {"library"},
    "river": {"library"},
    "study": set(),
    "scipy": {"library"},
    "narwhals": {"library"},
    "pandas": {"library"},
}

# Modules that start-up needs before the predecessor is fenced: what they import costs a restart time.
BEFORE_THE_FENCE = ("cli/run.py", "app/startup.py")
SLOW = ("numpy", "numba")

# Modules that others would bring along, and that no worker needs at its start.
UNUSED = (
    "attr",
    "matplotlib",
    "numba.cuda",
    "numba.np.linalg",
    "pygments",
    "rich",
    "stream_apple.demo",
    "stream_apple.files",
    "stream_apple.offline",
    "unittest",
)


def _package_of(dotted: str) -> str:
    """The innermost package that a module, `stream.snapshots.codec` say, is in."""
    names = dotted.split(".")
    while ".".join(names) not in ALLOWED and len(names) > 1:
        names.pop()
    return ".".join(names)


def _imports(tree: ast.AST) -> Iterator[str]:
    """Absolute dotted names of everything that is imported, at the top or inside a function."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"line {node.lineno}: relative imports hide the direction"
            module = node.module or ""
            folder = PACKAGE / "/".join(module.split(".")[1:])
            for alias in node.names:
                # `from stream_apple.records.message import msgpack_tags` names a module, not a thing in it.
                is_module = module.startswith("stream_apple") and (
                    (folder / f"{alias.name}.py").exists() or (folder / alias.name).is_dir()
                )
                yield f"{module}.{alias.name}" if is_module else module


def _forbidden(package: str, tree: ast.AST) -> list[str]:
    """The imports of a file in `package` that go against the direction."""
    found = []
    for name in _imports(tree):
        top, _, rest = name.partition(".")
        if top == "stream_apple":
            target = _package_of(rest)
            if target != package and target not in ALLOWED[package]:
                found.append(name)
        elif package.partition(".")[0] not in HOMES.get(top, {package.partition(".")[0]}):
            found.append(name)
    return found


def _outside(part: str, tree: ast.AST) -> list[str]:
    """Uses of print outside the command line, and of the environment outside configuration and demo."""
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and node.id == "print" and part != "cli":
            found.append(f"line {node.lineno}: print")
        environment = {"environ", "getenv", "environb", "putenv"}
        named = (isinstance(node, ast.Attribute) and node.attr in environment) or (
            isinstance(node, ast.ImportFrom)
            and node.module == "os"
            and any(alias.name in environment for alias in node.names)
        )
        # The demo hands the environment to its worker, without the settings that are meant for another one.
        if named and part not in {"config", "demo"}:
            found.append(f"line {getattr(node, 'lineno', 0)}: the environment")
    return found


def test_every_room_has_its_place() -> None:
    """A new folder or part of the package must be given its place in the direction of imports."""
    packages = {".".join(path.parent.relative_to(PACKAGE).parts) for path in FILES} - {""}
    assert packages | {part_of(path) for path in FILES} <= set(ALLOWED)
    assert {_package_of(dotted_name(path)) for path in FILES} == set(ALLOWED), "a package that is not there any more"


def test_the_direction_has_no_cycle() -> None:
    """Following the allowed imports never leads back."""
    order: list[str] = []
    while len(order) < len(ALLOWED):
        ready = [package for package, used in ALLOWED.items() if package not in order and used <= set(order)]
        assert ready
        order += ready


def _upward(folder: str, tree: ast.AST) -> list[str]:
    """The imports of a file in this folder of `stream` that lead to a folder of its own layer, or of one above."""
    layer_of = {name: height for height, layer in enumerate(STREAM_LAYERS) for name in layer}
    found = []
    for dotted in _imports(tree):
        names = dotted.split(".")
        if names[:2] != ["stream_apple", "stream"] or names[2:3] == [folder]:
            continue
        # `stream` itself has no layer: nothing is to be had of it.
        if len(names) < 3 or layer_of[names[2]] >= layer_of[folder]:
            found.append(dotted)
    return found


def test_no_arrow_points_upward_inside_the_stream() -> None:
    """Each file of `stream` is in a folder, each folder in a layer, and no import leads to the same layer or above."""
    found = {}
    for path in FILES:
        parts = path.relative_to(PACKAGE).parts
        if parts[0] == "stream" and parts != ("stream", "__init__.py"):
            assert len(parts) > 2, f"{path}: a module beside the folders has no layer"
            found[path] = _upward(parts[1], tree_of(path))
    assert len(found) > 80
    assert not any(found.values()), {path: arrows for path, arrows in found.items() if arrows}


def test_each_folder_of_the_stream_has_one_layer() -> None:
    """And each layer has folders that are there."""
    layered = [folder for layer in STREAM_LAYERS for folder in layer]
    assert sorted(layered) == sorted({path.parent.name for path in FILES if path.parent.parent == PACKAGE / "stream"})


def test_imports_follow_the_direction() -> None:
    """No file imports a package, or a technology, that is not for it."""
    found = {path: _forbidden(_package_of(dotted_name(path)), tree_of(path)) for path in FILES}
    assert {path: imports for path, imports in found.items() if imports} == {}


def _behind_the_port(module: str, tree: ast.AST) -> list[str]:
    """What a module outside `learners` imports of it that is behind the port: a sentence for each import."""
    return [
        f"{module} imports {name}, which is behind the port of learners: it may import {', '.join(PORT)} of them"
        for name in _imports(tree)
        if name.startswith("stream_apple.learners.") and name.split(".")[2] not in PORT
    ]


def test_nobody_reaches_behind_the_port_of_learners() -> None:
    """Whoever wants something of a learner asks the port; no name of a system's modules occurs outside `learners`."""
    outside = [path for path in FILES if part_of(path) != "learners"]
    assert [each for path in outside for each in _behind_the_port(dotted_name(path), tree_of(path))] == []


class _OfRunTime(ast.NodeTransformer):
    """Takes out what is imported for types only."""

    def visit_If(self, node: ast.If) -> ast.AST | None:
        return None if ast.unparse(node.test) == "TYPE_CHECKING" else node


def _reached(start: str) -> dict[str, str]:
    """All modules that a module imports, or that one of them does, each with the one that imports it."""
    files = {dotted_name(path): path for path in FILES}
    importers, waiting = {start: ""}, [start]
    while waiting:
        importer = waiting.pop()
        tree = _OfRunTime().visit(ast.parse(files[importer].read_text())) if importer in files else ast.Module([], [])
        for name in _imports(tree):
            module = name.removeprefix("stream_apple.")
            if module not in importers:
                importers[module] = importer
                waiting.append(module)
    return importers


def test_joiners_reach_no_model_and_no_compiler() -> None:
    """They label records: what learns would cost each of them its start and its memory."""
    importers = _reached("cli.join")
    assert {"app.joiner", "stream.joining.partition_join", "config"} <= set(importers)
    learning = [
        f"{importers[name]} imports {name}"
        for name in importers
        if name.partition(".")[0] in {"numba", "llvmlite"}
        or name in {"core.jit", "stream.model.partition_model"}
        or (name.startswith("learners.") and _package_of(name) != "learners" and ".options" not in name)
    ]
    assert learning == []


def test_all_of_the_port_is_needed_outside() -> None:
    """What nobody outside imports is no part of the port."""
    imported = {
        name.split(".")[2]
        for path in FILES
        if part_of(path) != "learners"
        for name in _imports(tree_of(path))
        if name.startswith("stream_apple.learners.")
    }
    assert imported == set(PORT)


def _height(names: list[str]) -> int:
    """The layer of a module of `study`, given the parts of its name below `study`."""
    return max((STUDY_LAYERS.index(name) for name in names[:1] if name in STUDY_LAYERS), default=0)


def test_no_arrow_points_upward_inside_the_study() -> None:
    """Each module imports its own layer and those below, and every folder is a layer."""
    top = ROOT / "study"
    folders = {path.parent.name for path in STUDY_FILES if path.parent != top}
    assert folders == set(STUDY_LAYERS) - {"", "__main__"}
    for path in STUDY_FILES:
        height = _height(list(path.relative_to(top).with_suffix("").parts))
        imported = [name.split(".")[1:] for name in _imports(tree_of(path)) if name.partition(".")[0] == "study"]
        assert [names for names in imported if _height(names) > height] == [], path


def test_the_outside_is_touched_at_the_edge() -> None:
    """Only commands print, and only the configuration reads the environment."""
    found = {path: _outside(part_of(path), tree_of(path)) for path in FILES}
    assert {path: touched for path, touched in found.items() if touched} == {}


@pytest.mark.parametrize("name", BEFORE_THE_FENCE)
def test_start_up_loads_nothing_slow(name: str) -> None:
    """Whatever is imported at the top of these, directly or not, neither numpy nor numba is."""
    waiting, seen = [PACKAGE / name], set()
    while waiting:
        file = waiting.pop()
        seen.add(file)
        top = ast.Module([node for node in tree_of(file).body if isinstance(node, ast.Import | ast.ImportFrom)], [])
        for dotted in _imports(top):
            assert dotted.partition(".")[0] not in SLOW, f"{file.relative_to(ROOT)} imports {dotted}"
            if dotted.startswith("stream_apple"):
                folder = PACKAGE / "/".join(dotted.split(".")[1:])
                found = folder / "__init__.py" if folder.is_dir() else folder.with_suffix(".py")
                parents = [parent / "__init__.py" for parent in found.parents if PACKAGE in (parent, *parent.parents)]
                waiting += [each for each in (found, *parents) if each not in seen]


def test_a_worker_loads_nothing_that_it_does_not_need() -> None:
    """Its modules leave out what only other commands, compilers and tracebacks in colour need."""
    modules = "stream_apple.cli.run, stream_apple.app.startup, stream_apple.app.worker"
    script = f"import sys, {modules}; print(*({{*{UNUSED!r}}} & {{*sys.modules}}))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


def _compared_losses(tree: ast.AST) -> list[str]:
    """The comparisons of a loss with another one, or of anything with the name of a loss."""
    found = []
    for node in ast.walk(tree):
        if not isinstance(node, ast.Compare):
            continue
        for left, operator, right in zip([node.left, *node.comparators], node.ops, node.comparators, strict=False):
            told_apart = isinstance(operator, ast.Eq | ast.NotEq | ast.In | ast.NotIn | ast.Is | ast.IsNot)
            if told_apart and "None" not in map(ast.unparse, (left, right)):
                leaves = [leaf for side in (left, right) for leaf in getattr(side, "elts", [side])]
                texts = {leaf.value for leaf in leaves if isinstance(leaf, ast.Constant)}
                names = {getattr(leaf, "id", getattr(leaf, "attr", "")).strip("_").lower() for leaf in leaves}
                if texts & LOSSES.keys() or names & {"loss", *LOSSES}:
                    found.append(f"line {node.lineno}: {ast.unparse(node)}")
    return found


def test_only_losses_know_which_loss_is_which() -> None:
    """All else asks the `Loss`, or calls a function that takes its number."""
    of_losses = {PACKAGE / "learners" / name for name in ("losses.py", "loss_functions.py")}
    found = {path: _compared_losses(tree_of(path)) for path in FILES if path not in of_losses}
    assert {path: compared for path, compared in found.items() if compared} == {}
    assert all(_compared_losses(tree_of(path)) for path in of_losses - {PACKAGE / "learners" / "losses.py"})


def test_modules_say_what_they_own() -> None:
    """Every module has a docstring."""
    assert [path for path in (*FILES, *STUDY_FILES) if not ast.get_docstring(tree_of(path))] == []


class TestRules:
    """The rules above see what they are for."""

    @pytest.mark.parametrize(
        ("package", "source"),
        [
            ("core", "from stream_apple.stream.model.partition_model import PartitionModel"),
            ("core", "from stream_apple.config import Config"),
            ("records.message", "from stream_apple.learners.apple.learner import Learner"),
            ("learners.apple", "from stream_apple.records.message import decode"),
            ("stream.loop", "import stream_apple.adapters.kafka.broker"),
            ("stream.positions", "from stream_apple.stream.snapshots.codec import Snapshot"),
            ("monitoring", "from stream_apple.stream.loop.loop import Loop"),
            ("stream.snapshots", "from stream_apple.monitoring.metrics import Metrics"),
            ("adapters.kafka", "from stream_apple.http.server import Server"),
            ("http", "import stream_apple.adapters.kafka.broker"),
            ("http", "from stream_apple import cli"),
            ("offline", "def late():\n    from stream_apple.stream.loop import loop"),
            ("offline", "from study.methods import METHODS"),
            ("files", "from stream_apple.offline import evaluation"),
            ("config", "from stream_apple.learners.apple.learner import Learner"),
            ("core", "import confluent_kafka"),
            ("stream.snapshots", "from confluent_kafka import Consumer"),
            ("learners.apple", "import logging"),
        ],
    )
    def test_forbidden_imports_are_found(self, package: str, source: str) -> None:
        """Each kind of wrong import is seen, wherever it stands."""
        assert len(_forbidden(package, ast.parse(source))) == 1

    @pytest.mark.parametrize(
        "source",
        [
            "from stream_apple.learners.apple.learner import Learner",
            "import stream_apple.learners.tuples.learner",
            "from stream_apple.learners import hashed",
            "def late():\n    from stream_apple.learners.declaration import Option",
        ],
    )
    def test_imports_behind_the_port_are_found(self, source: str) -> None:
        """Of each system, and of what the systems share among themselves."""
        [sentence] = _behind_the_port("cli.evaluate", ast.parse(source))
        assert sentence.startswith("cli.evaluate imports stream_apple.learners.")

    @pytest.mark.parametrize("name", PORT)
    def test_imports_of_the_port_are_none(self, name: str) -> None:
        """Each module of it."""
        assert _behind_the_port("cli.evaluate", ast.parse(f"from stream_apple.learners.{name} import x")) == []

    @pytest.mark.parametrize(
        ("folder", "source"),
        [
            ("positions", "from stream_apple.stream.merging.leader import Leader"),
            ("snapshots", "from stream_apple.stream.learning.threads import Threads"),
            ("log", "def late():\n    from stream_apple.stream import model"),
            ("merging", "import stream_apple.stream.loop.loop"),
            ("loop", "import stream_apple.stream"),
        ],
    )
    def test_upward_arrows_are_found(self, folder: str, source: str) -> None:
        """To a layer above, to a neighbour of the same layer, late imports too, and what names no folder."""
        assert len(_upward(folder, ast.parse(source))) == 1

    def test_downward_arrows_are_none(self) -> None:
        """To a layer below, and to the folder itself."""
        source = "from stream_apple.stream.log.ports import Record\nfrom stream_apple.stream.merging import rounds"
        assert _upward("merging", ast.parse(source)) == []

    @pytest.mark.parametrize(
        "source",
        [
            "options.loss == 'squared'",
            "if kind in ('logistic', 'softmax'): pass",
            "loss != SQUARED",
            "self._loss is SOFTMAX",
            "0 < 1 == (rule.loss == number)",
        ],
    )
    def test_comparisons_of_losses_are_found(self, source: str) -> None:
        """By name, by object, and by number."""
        assert _compared_losses(ast.parse(source))

    @pytest.mark.parametrize("source", ["loss < best", "loss.real_valued", "loss is None", "method == 'linear'"])
    def test_other_comparisons_are_allowed(self, source: str) -> None:
        """Of values of a loss, and of what else has a name."""
        assert _compared_losses(ast.parse(source)) == []

    @pytest.mark.parametrize(
        "source",
        ["print(1)", "import os\nos.environ['X']", "from os import environ", "import os\nos.getenv('X')"],
    )
    def test_touching_the_outside_is_found(self, source: str) -> None:
        """Each way to print or to read the environment is seen."""
        assert len(_outside("stream", ast.parse(source))) == 1
