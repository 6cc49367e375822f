"""The learner with River's interface, for `pip install 'stream-apple[river]'`."""

from stream_apple.library.river_models import AppleClassifier, AppleRegressor

__all__ = ["AppleClassifier", "AppleRegressor"]
