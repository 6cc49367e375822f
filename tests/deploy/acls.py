"""What a KafkaUser of the manifests may do, as a cluster takes it."""

import re

from confluent_kafka.admin import (  # type: ignore[attr-defined]  # exports are not marked
    AclBinding,
    AclOperation,
    AclPermissionType,
    ResourcePatternType,
    ResourceType,
)
from deploy.operator_schemas import Manifest

KINDS = {
    "topic": ResourceType.TOPIC,
    "group": ResourceType.GROUP,
    "transactionalId": ResourceType.TRANSACTIONAL_ID,
}
_PATTERNS = {"literal": ResourcePatternType.LITERAL, "prefix": ResourcePatternType.PREFIXED}


def bindings(acls: list[Manifest], principal: str) -> list[AclBinding]:
    """The rules of a KafkaUser as the cluster takes them, one for each operation, for `principal`."""
    return [
        AclBinding(
            KINDS[rule["resource"]["type"]],
            rule["resource"]["name"],
            _PATTERNS[rule["resource"].get("patternType", "literal")],
            principal,
            "*",
            AclOperation[re.sub(r"(?<=[a-z])(?=[A-Z])", "_", operation).upper()],
            AclPermissionType.ALLOW,
        )
        for rule in acls
        for operation in rule["operations"]
    ]
