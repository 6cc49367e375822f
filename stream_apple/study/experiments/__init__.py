"""Experiments of papers, which `stream-apple study --experiment NAME` does; `registry` names the module of each."""
