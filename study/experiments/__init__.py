"""Experiments of papers, which `python -m study --experiment NAME` does; `registry` names the module of each."""
