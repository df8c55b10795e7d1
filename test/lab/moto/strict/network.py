"""Rules for security groups and tags that moto 5.2.4 does not have."""

from moto.ec2.exceptions import DependencyViolationError
from moto.ec2.models.core import TaggedEC2Resource
from moto.ec2.models.security_groups import SecurityGroupBackend
from moto.ec2.utils import EC2_PREFIX_TO_RESOURCE, get_prefix

_delete = SecurityGroupBackend._delete_security_group


def delete_security_group(self, vpc_id, group_id):
    """A group that an interface or another group's rule names stays."""
    used = any(g.id == group_id for nic in self.get_all_network_interfaces() for g in nic.group_set)
    for groups in self.groups.values():
        for other in groups.values():
            rules = other.ingress_rules + other.egress_rules
            if other.id != group_id and any((r.source_group or {}).get("GroupId") == group_id for r in rules):
                used = True
    if used:
        raise DependencyViolationError(f"resource {group_id} has a dependent object")
    deleted = _delete(self, vpc_id, group_id)
    forget_tags(self, group_id)
    return deleted


def forget_tags(backend, resource_id):
    """What is gone has no tags, which a policy may ask for. moto keeps them."""
    backend.tags.pop(resource_id, None)


def get_tags(self):
    """moto searches all tags of the account for each resource; this looks them up."""
    kind = EC2_PREFIX_TO_RESOURCE.get(get_prefix(self.id), "") if self.id else ""
    tags = self.ec2_backend.tags.get(self.id, {})
    return [{"resource_id": self.id, "key": k, "value": v, "resource_type": kind} for k, v in tags.items()]


def install():
    SecurityGroupBackend._delete_security_group = delete_security_group
    TaggedEC2Resource.get_tags = get_tags
