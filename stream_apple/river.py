"""The learner with River's interface, for `pip install 'stream-apple[river]'`."""

try:
    from stream_apple.library.river_models import AppleClassifier, AppleRegressor
except ModuleNotFoundError as missing:
    if (missing.name or "").partition(".")[0] not in {"narwhals", "pandas", "river", "scipy"}:
        raise
    raise ImportError(
        f"stream_apple.river: expected {missing.name} to be installed: pip install 'stream-apple[river]'"
    ) from missing

__all__ = ["AppleClassifier", "AppleRegressor"]
