"""Experiments of papers that `stream-apple study --experiment NAME` does: each module named in `registry` is one."""
