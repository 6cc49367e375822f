"""The PrometheusRule manifests, written from the plain rule files: `python tests/deploy/prometheus_rule.py`.

kustomize can't put a file's content into a resource, and the plain files are what promtool tests and compose mounts.
"""

from pathlib import Path

_DEPLOY = Path(__file__).resolve().parent.parent.parent / "deploy"
RULES = sorted((_DEPLOY / "monitoring" / "rules").glob("*.yaml"))
MANIFESTS = _DEPLOY / "components" / "monitoring" / "rules"

_HEAD = """\
# Written by `python tests/deploy/prometheus_rule.py` from deploy/monitoring/rules/{name}.yaml, the one to edit.
apiVersion: monitoring.coreos.com/v1
kind: PrometheusRule
metadata:
  name: stream-apple-{name}
  labels:
    app.kubernetes.io/name: stream-apple
spec:
"""


def manifest(rules: Path) -> str:
    """The text of a rule file, moved under `spec`; the comments at its top stay behind."""
    lines = rules.read_text(encoding="utf-8").splitlines()
    body = "".join(f"  {line}\n" if line else "\n" for line in lines[lines.index("groups:") :])
    return _HEAD.format(name=rules.stem) + body


if __name__ == "__main__":
    for file in RULES:
        (MANIFESTS / file.name).write_text(manifest(file), encoding="utf-8")
