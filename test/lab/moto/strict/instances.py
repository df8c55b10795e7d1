"""Rules for instances that moto 5.2.4 does not have."""

import base64
import binascii
import copy
import re
import time

import moto.ec2.responses.instances as responses
from moto.core.responses import ActionResult
from moto.core.utils import utcnow
from moto.ec2.exceptions import (
    EC2ClientError,
    InvalidAMIIdError,
    InvalidSecurityGroupNotFoundError,
)
from moto.ec2.models.instance_types import INSTANCE_TYPE_OFFERINGS, INSTANCE_TYPES
from moto.ec2.models.instances import Instance, InstanceBackend, InstanceState, StateReason
from moto.ec2.responses._base_response import EC2BaseResponse
from moto.ec2.utils import Base64EncodedString, filter_dict_attribute_mapping, filter_iam_instance_profiles

from network import forget_tags
from tokens import idempotent
from transitions import TRANSITIONS

CODES = {"pending": 0, "running": 16, "shutting-down": 32, "terminated": 48, "stopping": 64, "stopped": 80}
USER_DATA_LIMIT = 16384  # bytes before base64, EC2 user guide
CONSOLE_LIMIT = 65536  # bytes, GetConsoleOutput
TERMINATED_VISIBLE = 3600  # seconds, "about an hour" in the EC2 user guide
STOPPED_ONLY = ("instance_type", "user_data", "kernel")
# The account's default for launches that do not choose, as ModifyInstanceMetadataDefaults or an organisation's policy sets it.
DEFAULT_METADATA_TAGS = "enabled"
METADATA_TAG_KEY = re.compile(r"[0-9a-zA-Z\-_+=,.@:]{1,255}")
METADATA_RESERVED = (".", "..", "_index")

_original = {
    "init": Instance.__init__,
    "start": Instance.start,
    "stop": Instance.stop,
    "terminate": Instance.terminate,
    "run_instances": responses.InstanceResponse.run_instances,
    "modify_instance_attribute": InstanceBackend.modify_instance_attribute,
    "modify_instance_security_groups": InstanceBackend.modify_instance_security_groups,
    "describe_instance_status": InstanceBackend.describe_instance_status,
}


def state_of(instance):
    return instance._state.name


def set_state(instance, name):
    instance._state = InstanceState(name, CODES[name])


def incorrect_state(instance, doing):
    return EC2ClientError(
        "IncorrectInstanceState", f"The instance '{instance.id}' is not in a state from which it can be {doing}."
    )


def report(instance, name, reason=""):
    """The end of a transition, as the hypervisor or the clock says it.

    A report that fits no transition was overtaken by a later call: ignored.
    """
    state = state_of(instance)
    if name == "running" and state == "pending":
        set_state(instance, "running")
    elif name == "stopped" and state == "stopping":
        if not instance._lab_held:
            set_state(instance, "stopped")
    elif name == "stopped" and state == "running":
        _original["stop"](instance)
        set_state(instance, "stopped")
        instance.state_reason = StateReason(
            "Client.InstanceInitiatedShutdown: Instance initiated shutdown", "Client.InstanceInitiatedShutdown"
        )
    elif name == "terminated" and state in ("shutting-down", "pending"):
        _original["terminate"](instance)
        set_state(instance, "terminated")
        if reason:
            instance.state_reason = StateReason(reason, reason.split(":")[0])
        instance._lab_terminated = time.monotonic()


def purge(backend):
    """Forgets instances that were terminated long ago."""
    old = time.monotonic() - TERMINATED_VISIBLE
    for key, reservation in list(backend.reservations.items()):
        if all(getattr(i, "_lab_terminated", old + 1) < old for i in reservation.instances):
            del backend.reservations[key]
            for instance in reservation.instances:
                forget_tags(backend, instance.id)


# The model


def init(self, *args, **kwargs):
    _original["init"](self, *args, **kwargs)
    self._lab_console = ""
    self._lab_force = self._lab_skip_shutdown = False
    self._lab_asked_force = False  # by the call under way
    self._lab_stuck = 0  # stops that will not get on
    self._lab_held = False  # the stop under way does not get on
    self._lab_reboots = 0
    self._lab_checks = {"system": "ok", "instance": "ok", "volumes": "ok"}
    self._lab_events = []
    self.metadata_options.instance_metadata_tags = metadata_tags(kwargs.get("metadata_options"))
    if 0 in self.nics:
        self.security_groups = list(self.nics[0].group_set)
    set_state(self, "pending")
    TRANSITIONS.later(lambda: report(self, "running"))


def start(self):
    before = copy.copy(self._state)
    if before.name in ("pending", "running"):
        return before
    if before.name != "stopped":
        raise incorrect_state(self, "started")
    _original["start"](self)
    self._lab_force = self._lab_skip_shutdown = False
    self._lab_console = ""
    self.launch_time = utcnow()  # "the time that the instance was last launched"
    set_state(self, "pending")
    TRANSITIONS.later(lambda: report(self, "running"))
    return before


def stop(self):
    """A stop can be repeated with force, which is what helps one that does not get on."""
    before = copy.copy(self._state)
    if before.name == "stopped" or before.name == "stopping" and not self._lab_asked_force:
        return before
    if before.name not in ("running", "stopping"):
        raise incorrect_state(self, "stopped")
    if before.name == "running":
        _original["stop"](self)
        set_state(self, "stopping")
    self._lab_held = self._lab_stuck > 0
    self._lab_stuck = max(0, self._lab_stuck - 1)
    TRANSITIONS.later(lambda: report(self, "stopped"))
    return before


def terminate(self):
    before = copy.copy(self._state)
    if before.name not in ("shutting-down", "terminated"):
        set_state(self, "shutting-down")
        self._reason = f"User initiated ({utcnow().strftime('%Y-%m-%d %H:%M:%S GMT')})"
        self.state_reason = StateReason(
            "Client.UserInitiatedShutdown: User initiated shutdown", "Client.UserInitiatedShutdown"
        )
        TRANSITIONS.later(lambda: report(self, "terminated"))
    return before


def reboot(self):
    if state_of(self) != "running":
        raise incorrect_state(self, "rebooted")
    self._lab_reboots += 1


def setup_defaults(self):
    """A root volume under the image's own device name."""
    volume = self.ec2_backend.create_volume(size=8, zone_name=self._placement.zone, volume_type="gp3")
    self.ec2_backend.attach_volume(volume.id, self.id, self.root_device_name, True)


def private_ip_address(self):
    return None if state_of(self) == "terminated" else self.nics[0].private_ip_address


def network_interfaces(self):
    return [] if state_of(self) == "terminated" else list(self.nics.values())


def check(kind):
    def status(self):
        if state_of(self) != "running":
            return {"Status": "not-applicable"}
        value = self._lab_checks[kind]
        passed = "passed" if value == "ok" else "failed"
        return {"Details": [{"Name": "reachability", "Status": passed}], "Status": value}

    return property(status)


def reported(kind):
    return lambda instance: [getattr(instance, kind)["Status"]]


def announced(field):
    return lambda instance: [event[field] for event in instance._lab_events]


# moto takes every filter of DescribeInstanceStatus and applies none.
STATUS_FILTERS = {
    "instance-status.status": reported("instance_status"),
    "system-status.status": reported("system_status"),
    "attached-ebs-status.status": reported("attached_ebs_status"),
    "event.code": announced("Code"),
    "event.description": announced("Description"),
}


def describe_instance_status(self, instance_ids, include_all_instances, filters):
    found = _original["describe_instance_status"](self, instance_ids, include_all_instances, [])
    for wanted in filters or []:
        values = STATUS_FILTERS.get(wanted["name"])
        if values is None:
            raise EC2ClientError("InvalidParameterValue", f"The filter '{wanted['name']}' is invalid")
        found = [i for i in found if set(values(i)) & set(wanted["values"])]
    return found


def modify_instance_attribute(self, instance_id, key, value):
    instance = self.get_instance(instance_id)
    if key in STOPPED_ONLY and state_of(instance) != "stopped":
        raise EC2ClientError("IncorrectInstanceState", f"The instance '{instance_id}' is not in the 'stopped' state.")
    if key == "instance_type":
        known_type(value)
    return _original["modify_instance_attribute"](self, instance_id, key, value)


def modify_instance_security_groups(self, instance_id, new_group_id_list):
    """An instance's groups are those of its first interface. moto leaves the interface with the old ones as well."""
    for group_id in new_group_id_list:
        if self.get_security_group_from_id(group_id) is None:
            raise InvalidSecurityGroupNotFoundError(group_id)
    instance = _original["modify_instance_security_groups"](self, instance_id, new_group_id_list)
    if 0 in instance.nics:
        instance.nics[0]._group_set = list(instance.security_groups)
    return instance


# The calls


def known_type(name):
    if name not in INSTANCE_TYPES:
        raise EC2ClientError("InvalidParameterValue", f"Invalid value '{name}' for InstanceType.")
    return INSTANCE_TYPES[name]


def check_user_data(encoded):
    try:
        size = len(base64.b64decode(encoded or "", validate=True))
    except binascii.Error:
        raise EC2ClientError("InvalidParameterValue", "Invalid BASE64 encoding of user data.")
    if size > USER_DATA_LIMIT:
        raise EC2ClientError("InvalidParameterValue", f"User data is limited to {USER_DATA_LIMIT} bytes")


def check_placement(response, backend, image):
    """Type, architecture, zone and groups must fit each other."""
    name = response._get_param("InstanceType", "m1.small")
    kind = known_type(name)
    architectures = kind["ProcessorInfo"]["SupportedArchitectures"]
    if image.architecture not in architectures:
        raise EC2ClientError(
            "InvalidParameterValue",
            f"The architecture '{architectures[0]}' of the specified instance type does not match "
            f"the architecture '{image.architecture}' of the specified AMI. Specify an instance type and an AMI "
            "that have matching architectures, and try again.",
        )
    subnet_id = response._get_param("SubnetId")
    if not subnet_id:
        return
    subnet = backend.get_subnet(subnet_id)
    zone = subnet.availability_zone
    offered = INSTANCE_TYPE_OFFERINGS["availability-zone"].get(response.region, [])
    if not any(o["InstanceType"] == name and o["Location"] == zone for o in offered):
        raise EC2ClientError(
            "Unsupported",
            f"Your requested instance type ({name}) is not supported in your requested Availability Zone ({zone}).",
        )
    for group_id in response._get_param("SecurityGroupIds", []):
        group = backend.get_security_group_from_id(group_id)
        if group is None:
            raise InvalidSecurityGroupNotFoundError(group_id)
        if group.vpc_id != subnet.vpc_id:
            raise EC2ClientError(
                "InvalidParameter",
                f"Security group {group_id} and subnet {subnet_id} belong to different networks.",
            )


def check_profile(response):
    name, arn = response._get_param("IamInstanceProfile.Name"), response._get_param("IamInstanceProfile.Arn")
    if not name and not arn:
        return
    try:
        filter_iam_instance_profiles(response.current_account, response.partition, arn, name)
    except Exception:
        field = "name" if name else "arn"
        raise EC2ClientError(
            "InvalidParameterValue",
            f"Value ({name or arn}) for parameter iamInstanceProfile.{field} is invalid. "
            "Invalid IAM Instance Profile name",
        )


def metadata_tags(options):
    """Whether the metadata service shows the instance's tags."""
    return (options or {}).get("InstanceMetadataTags") or DEFAULT_METADATA_TAGS


def check_metadata_tags(response):
    """A tag is a path of the metadata service, where that shows tags."""
    if metadata_tags(response._get_param("MetadataOptions", {})) != "enabled":
        return
    for key in response._parse_tag_specification().get("instance", {}):
        if not METADATA_TAG_KEY.fullmatch(key) or key in METADATA_RESERVED:
            raise EC2ClientError(
                "InvalidParameterValue",
                f"'{key}' is not a valid tag key. Tag keys must match pattern ([0-9a-zA-Z\\-_+=,.@:]{{1,255}}), "
                "and must not be a reserved name ('.', '..', '_index')",
            )


def check_launch(response):
    """What EC2 refuses before it makes anything, also in a dry run."""
    backend = response.ec2_backend
    check_user_data(response._get_param("UserData"))
    image_id = response._get_param("ImageId")
    images = backend.describe_images(ami_ids=[image_id])
    if not images:
        raise InvalidAMIIdError(image_id)
    check_placement(response, backend, images[0])
    key = response._get_param("KeyName")
    if key and key not in backend.key_pairs:
        raise EC2ClientError("InvalidKeyPair.NotFound", f"The key pair '{key}' does not exist")
    check_profile(response)
    check_metadata_tags(response)


def run_instances(self):
    check_launch(self)
    self.error_on_dryrun()

    def launch():
        answer = _original["run_instances"](self)
        tags = self._parse_tag_specification().get("network-interface", {})
        for instance in answer.result.instances:
            instance.disable_api_termination = bool(self._get_param("DisableApiTermination"))
            for nic in instance.nics.values():
                nic.add_tags(tags)
                # EC2's default for interfaces made by the launch.
                nic.delete_on_termination = True
        return answer

    return idempotent(self, launch)


def flag(response, name):
    """A boolean that the packaged service model may not know yet."""
    return response.data.get(name, ["false"])[0].lower() == "true"


def change(method, key):
    """StartInstances and its like: they answer with the state that is."""

    def call(self):
        ids = self._get_param("InstanceIds", [])
        instances = self.ec2_backend.get_multi_instances_by_id(ids)
        self.error_on_dryrun()
        before = {i.id: copy.copy(i._state) for i in instances}
        for i in instances:
            i._lab_asked_force = flag(self, "Force")
        getattr(self.ec2_backend, method)(ids)
        for i in instances:
            i._lab_force = i._lab_force or flag(self, "Force")
            i._lab_skip_shutdown = i._lab_skip_shutdown or flag(self, "SkipOsShutdown")
        return ActionResult(
            {key: [{"InstanceId": i.id, "CurrentState": i._state, "PreviousState": before[i.id]} for i in instances]}
        )

    return call


def get_console_output(self):
    instance = self.ec2_backend.get_instance(self._get_param("InstanceId"))
    output = instance._lab_console.encode()[-CONSOLE_LIMIT:]
    encoded = Base64EncodedString.from_encoded_bytes(base64.b64encode(output))
    return ActionResult({"InstanceId": instance.id, "Timestamp": utcnow(), "Output": encoded})


def install():
    Instance.__init__ = init
    Instance.start, Instance.stop, Instance.terminate, Instance.reboot = start, stop, terminate, reboot
    Instance.setup_defaults = setup_defaults
    Instance.private_ip_address = property(private_ip_address)
    Instance.network_interfaces = property(network_interfaces)
    Instance.system_status, Instance.instance_status = check("system"), check("instance")
    Instance.attached_ebs_status = check("volumes")
    Instance.events = property(lambda self: self._lab_events)
    InstanceBackend.modify_instance_attribute = modify_instance_attribute
    InstanceBackend.modify_instance_security_groups = modify_instance_security_groups
    InstanceBackend.describe_instance_status = describe_instance_status

    calls = responses.InstanceResponse
    calls.run_instances = run_instances
    calls.start_instances = change("start_instances", "StartingInstances")
    calls.stop_instances = change("stop_instances", "StoppingInstances")
    calls.terminate_instances = change("terminate_instances", "TerminatingInstances")

    from moto.ec2.responses.general import General

    General.get_console_output = get_console_output
    # moto answers 500 to this filter.
    filter_dict_attribute_mapping["client-token"] = "client_token"
    # moto claims "pending" in every answer of RunInstances, also for a dead instance.
    EC2BaseResponse.RESPONSE_KEY_PATH_TO_TRANSFORMER.pop("RunInstances.Reservation.Instances.Instance.State", None)
