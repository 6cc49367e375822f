"""The PrometheusRule manifest, written from the plain rule file: `python tests/deploy/prometheus_rule.py`.

kustomize can't put a file's content into a resource, and the plain file is what promtool tests and what compose mounts.
"""

from pathlib import Path

_DEPLOY = Path(__file__).resolve().parent.parent.parent / "deploy"
RULES = _DEPLOY / "monitoring" / "rules.yaml"
MANIFEST = _DEPLOY / "components" / "monitoring" / "prometheus-rule.yaml"

_HEAD = """\
# Written by `python tests/deploy/prometheus_rule.py` from deploy/monitoring/rules.yaml, which is the one to edit.
apiVersion: monitoring.coreos.com/v1
kind: PrometheusRule
metadata:
  name: stream-apple
  labels:
    app.kubernetes.io/name: stream-apple
spec:
"""


def manifest() -> str:
    """The rule file's text, moved under `spec`; its comments stay behind."""
    lines = RULES.read_text(encoding="utf-8").splitlines()
    return _HEAD + "".join(f"  {line}\n" if line else "\n" for line in lines[lines.index("groups:") :])


if __name__ == "__main__":
    MANIFEST.write_text(manifest(), encoding="utf-8")
