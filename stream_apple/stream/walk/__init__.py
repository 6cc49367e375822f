"""The walk along a log: a model is restored, learns again, and stops at events; for all who read logs with models."""
