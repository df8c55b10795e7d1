"""Rules for volumes, attachments and snapshots that moto 5.2.4 does not have."""

import re
import time

from moto.core.responses import ActionResult
from moto.ec2.exceptions import EC2ClientError, VolumeInUseError
from moto.ec2.models.elastic_block_store import EBSBackend, Snapshot, Volume, VolumeModification
from moto.ec2.responses._base_response import EC2BaseResponse
from moto.ec2.responses.elastic_block_store import ElasticBlockStore

from instances import state_of
from network import forget_tags
from tokens import idempotent
from transitions import TRANSITIONS

DEVICE = re.compile(r"/dev/(sd[a-z][1-9]?[0-9]?|xvd[a-z]{1,2})$")
MODIFICATIONS = 4  # of one volume ...
MODIFICATION_WINDOW = 24 * 3600  # ... in a rolling day (seconds), EBS user guide
# What a modification that changes the type sets for what it leaves out, EC2 API reference, ModifyVolume.
CONVERTED_IOPS = {"gp3": 3000, "io1": 3000, "io2": 3000}
CONVERTED_THROUGHPUT = {"gp3": 125}

_original = {
    "create_volume": ElasticBlockStore.create_volume,
    "modify_volume": ElasticBlockStore.modify_volume,
    "delete_volume": ElasticBlockStore.delete_volume,
    "create_snapshot": ElasticBlockStore.create_snapshot,
    "snapshot_init": Snapshot.__init__,
    "launch_attach": EBSBackend.attach_volume,
    "forget_volume": EBSBackend.delete_volume,
    "forget_snapshot": EBSBackend.delete_snapshot,
}


def incorrect(what):
    return EC2ClientError("IncorrectState", what)


# The ends of transitions, as the hypervisor or the clock says them. A report
# that fits no transition was overtaken by a later call: ignored.


def report_created(volume, instance_id=None):
    volume._lab_state = None


def report_attached(volume, instance_id):
    attachment = volume.attachment
    if attachment and attachment.status == "attaching" and attachment.instance.id == instance_id:
        set_attachment(volume, "attached")


def report_detached(volume, instance_id):
    attachment = volume.attachment
    if attachment and attachment.status == "detaching" and attachment.instance.id == instance_id:
        volume.ec2_backend.detach_volume(volume.id, instance_id, attachment.device)


def report_grown(volume, instance_id=None):
    for m in volume.modifications:
        m._lab_done = True


def report_snapshot(snapshot):
    snapshot.status = "completed"


def set_attachment(volume, status):
    """Volume and instance each keep the attachment's status."""
    attachment = volume.attachment
    attachment.status = status
    device = attachment.instance.block_device_mapping.get(attachment.device)
    if device is not None:
        device.status = status


# The model


def status(self):
    return getattr(self, "_lab_state", None) or ("in-use" if self.attachment else "available")


def snapshot_init(self, *args, **kwargs):
    _original["snapshot_init"](self, *args, **kwargs)
    self._lab_size = self.volume.size  # the volume may grow afterwards


def launch_attach(self, volume_id, instance_id, device_path, delete_on_termination=False):
    """Attachments of RunInstances. The root disk is there with the machine; others take their time."""
    attachment = _original["launch_attach"](self, volume_id, instance_id, device_path, delete_on_termination)
    volume = attachment.volume
    if device_path == attachment.instance.root_device_name:
        volume._lab_root = True
    elif TRANSITIONS.hypervisor:
        volume._lab_state = "creating"
        set_attachment(volume, "attaching")
    return attachment


def forgetting(name):
    """A deletion that also forgets the tags."""

    def delete(self, resource_id):
        deleted = _original[name](self, resource_id)
        forget_tags(self, resource_id)
        return deleted

    return delete


# The calls


def create_volume(self):
    backend = self.ec2_backend
    zone = self._get_param("AvailabilityZone")
    if backend.get_zone_by_name(zone) is None:
        raise EC2ClientError("InvalidZone.NotFound", f"The zone '{zone}' does not exist.")
    snapshot_id = self._get_param("SnapshotId")
    if snapshot_id:
        snapshot = backend.get_snapshot(snapshot_id)
        if snapshot.status != "completed":
            raise incorrect(f"Snapshot {snapshot_id} is in invalid state - {snapshot.status}")
        size = self._get_param("Size")
        if size is not None and int(size) < snapshot.volume_size:
            raise EC2ClientError(
                "InvalidParameterValue", f"Volume of {size}GiB is smaller than snapshot '{snapshot_id}'."
            )
    self.error_on_dryrun()

    def create():
        answer = _original["create_volume"](self)
        volume = answer.result
        volume._lab_state = "creating"
        TRANSITIONS.later(lambda: report_created(volume))
        return answer

    return idempotent(self, create)


def attach_volume(self):
    backend = self.ec2_backend
    device = self._get_param("Device")
    volume = backend.get_volume(self._get_param("VolumeId"))
    instance = backend.get_instance(self._get_param("InstanceId"))
    if not DEVICE.match(device or ""):
        raise EC2ClientError(
            "InvalidParameterValue",
            f"Value ({device}) for parameter device is invalid. {device} is not a valid EBS device name.",
        )
    if volume.attachment:
        raise EC2ClientError("VolumeInUse", f"{volume.id} is already attached to an instance")
    if volume.status != "available":
        raise incorrect(f"Volume '{volume.id}' is in the '{volume.status}' state.")
    if volume.zone.name != instance.availability_zone:
        raise EC2ClientError(
            "InvalidVolume.ZoneMismatch",
            f"The volume '{volume.id}' is not in the same availability zone as instance '{instance.id}'",
        )
    if state_of(instance) not in ("running", "stopped"):
        raise incorrect(f"Instance '{instance.id}' is not 'running' or 'stopped'.")
    if device in instance.block_device_mapping:
        raise EC2ClientError(
            "InvalidParameterValue",
            f"Invalid value '{device}' for unixDevice. Attachment point {device} is already in use",
        )
    self.error_on_dryrun()
    attachment = _original["launch_attach"](backend, volume.id, instance.id, device)
    set_attachment(volume, "attaching")
    TRANSITIONS.later(lambda: report_attached(volume, instance.id))
    return attachment_result(attachment)


def detach_volume(self):
    backend = self.ec2_backend
    volume = backend.get_volume(self._get_param("VolumeId"))
    attachment = volume.attachment
    if not attachment or attachment.status == "detaching":
        state = "detaching" if attachment else volume.status
        raise incorrect(f"Volume '{volume.id}' is in the '{state}' state.")
    instance_id = self._get_param("InstanceId")
    if instance_id and instance_id != attachment.instance.id:
        raise EC2ClientError(
            "InvalidAttachment.NotFound", f"Volume '{volume.id}' is not attached to instance '{instance_id}'."
        )
    instance = attachment.instance
    if attachment.device == instance.root_device_name and state_of(instance) != "stopped":
        raise EC2ClientError(
            "OperationNotPermitted", f"Unable to detach root volume '{volume.id}' from instance '{instance.id}'"
        )
    self.error_on_dryrun()
    set_attachment(volume, "detaching")
    TRANSITIONS.later(lambda: report_detached(volume, instance.id))
    return attachment_result(attachment)


def attachment_result(attachment):
    return ActionResult(
        {
            "VolumeId": attachment.volume.id,
            "InstanceId": attachment.instance.id,
            "Device": attachment.device,
            "State": attachment.status,
            "AttachTime": attachment.attach_time,
        }
    )


def delete_volume(self):
    volume = self.ec2_backend.get_volume(self._get_param("VolumeId"))
    if volume.attachment:
        raise VolumeInUseError(volume.id, volume.attachment.instance.id)
    if volume.status != "available":
        raise incorrect(f"Volume '{volume.id}' is in the '{volume.status}' state.")
    return _original["delete_volume"](self)


def modify_volume(self):
    volume = self.ec2_backend.get_volume(self._get_param("VolumeId"))
    size = self._get_param("Size")
    if size is not None and int(size) < volume.size:
        raise EC2ClientError("InvalidParameterValue", "New size cannot be smaller than existing size")
    if any(m.modification_state != "completed" for m in volume.modifications):
        raise EC2ClientError(
            "IncorrectModificationState", f"Volume {volume.id} is already being modified."
        )
    recent = [m for m in volume.modifications if m._lab_start > time.monotonic() - MODIFICATION_WINDOW]
    if len(recent) >= MODIFICATIONS:
        raise EC2ClientError(
            "VolumeModificationRateExceeded",
            f"You've reached the maximum modification rate per volume limit ({MODIFICATIONS} in 24 hours).",
        )
    former = volume.volume_type
    answer = _original["modify_volume"](self)
    modification = volume.modifications[-1]
    modification._lab_start = time.monotonic()
    if volume.volume_type != former:
        volume.iops = modification.target_iops or CONVERTED_IOPS.get(volume.volume_type)
        volume.throughput = modification.target_throughput or CONVERTED_THROUGHPUT.get(volume.volume_type)
    modification.target_size, modification.target_volume_type = volume.size, volume.volume_type
    modification.target_iops, modification.target_throughput = volume.iops, volume.throughput
    TRANSITIONS.later(lambda: report_grown(volume))
    return answer


def modification_state(self):
    return "completed" if getattr(self, "_lab_done", False) else "modifying"


def create_snapshot(self):
    volume = self.ec2_backend.get_volume(self._get_param("VolumeId"))
    if volume.status not in ("available", "in-use"):
        raise incorrect(f"Volume '{volume.id}' is in the '{volume.status}' state.")
    answer = _original["create_snapshot"](self)
    snapshot = answer.result
    snapshot.status = "pending"
    TRANSITIONS.later(lambda: report_snapshot(snapshot))
    return answer


def install():
    Volume.status = property(status)
    Snapshot.__init__ = snapshot_init
    Snapshot.volume_size = property(lambda self: self._lab_size)
    Snapshot.progress = property(lambda self: "100%" if self.status == "completed" else "0%")
    VolumeModification.modification_state = property(modification_state)
    VolumeModification.progress = property(lambda self: 100 if self.modification_state == "completed" else 0)
    EBSBackend.attach_volume = launch_attach
    EBSBackend.delete_volume, EBSBackend.delete_snapshot = forgetting("forget_volume"), forgetting("forget_snapshot")
    calls = ElasticBlockStore
    calls.create_volume, calls.delete_volume, calls.modify_volume = create_volume, delete_volume, modify_volume
    calls.attach_volume, calls.detach_volume = attach_volume, detach_volume
    calls.create_snapshot = create_snapshot
    # moto claims "creating" in every answer of CreateVolume, also to a repeated one.
    EC2BaseResponse.RESPONSE_KEY_PATH_TO_TRANSFORMER.pop("CreateVolumeResponse.State", None)
