"""The lab's own API beside EC2's: what the hypervisor reads and reports.

GET  /lab/world       what should exist, of one account with ?account=ID
POST /lab/report      what has happened to it
POST /lab/status      status checks and scheduled events of an instance
POST /lab/hold        whether changes that come by themselves are held back
POST /lab/parameters  public SSM parameters (AWS refuses PutParameter under /aws/)
"""

import json
from datetime import datetime

from moto.core.utils import utcnow
from moto.ec2.models import ec2_backends
from moto.ssm.models import Parameter, ssm_backends
from werkzeug.wrappers import Request, Response

import instances
import volumes
from transitions import TRANSITIONS

ACCOUNT = "123456789012"


def backends(account=None):
    """Each account and region that has been used, or those of one account."""
    for every in list(ec2_backends.values()):
        yield from (b for b in list(every.values()) if account in (None, b.account_id))


def each_instance(account=None):
    for backend in backends(account):
        instances.purge(backend)
        for reservation in list(backend.reservations.values()):
            for instance in reservation.instances:
                yield backend, instance


def instance_view(backend, i):
    nic = i.nics[0]
    return {
        "id": i.id,
        "account": backend.account_id,
        "region": backend.region_name,
        "state": i._state.name,
        "launched": i.launch_time.isoformat() + "Z",
        "force": i._lab_force,
        "skipShutdown": i._lab_skip_shutdown,
        "reboots": i._lab_reboots,
        "address": nic.private_ip_address,
        "mac": nic.mac_address,
        "interface": nic.id,
        "subnet": i.subnet_id,
        "subnetCIDR": nic.subnet.cidr_block if nic.subnet else "",
        "vpc": i.vpc_id,
        "zone": i._placement.zone,
        "type": i.instance_type,
        "image": i.image_id,
        "rootDevice": i.root_device_name,
        "hostname": i.private_dns_name,
        "groups": [g.name for g in i.security_groups],
        "userData": str(i.user_data) if i.user_data else "",
        "tags": {t["key"]: t["value"] for t in i.get_tags()}
        if i.metadata_options.instance_metadata_tags == "enabled"
        else {},
    }


def volume_view(v):
    attachment = v.attachment
    return {
        "id": v.id,
        "sizeGiB": v.size,
        "state": v.status,
        "snapshot": v.snapshot_id or "",
        "modifying": any(m.modification_state != "completed" for m in v.modifications),
        "instance": attachment.instance.id if attachment else "",
        "device": attachment.device if attachment else "",
        "attachment": attachment.status if attachment else "",
    }


def world(account):
    every = [v for b in backends(account) for v in list(b.volumes.values()) if not getattr(v, "_lab_root", False)]
    snapshots = [s for b in backends(account) for s in list(b.snapshots.values()) if not s.from_ami]
    return {
        "instances": [instance_view(b, i) for b, i in each_instance(account) if instances.state_of(i) != "terminated"],
        "volumes": [volume_view(v) for v in every],
        "snapshots": [{"id": s.id, "volume": s.volume.id, "state": s.status} for s in snapshots],
    }


def find_instance(wanted):
    return next((i for _, i in each_instance() if i.id == wanted), None)


def find(table, wanted):
    return next((r for b in backends() for r in [getattr(b, table).get(wanted)] if r), None)


VOLUME_REPORTS = {
    "created": volumes.report_created,
    "attached": volumes.report_attached,
    "detached": volumes.report_detached,
    "grown": volumes.report_grown,
}


def report(said):
    """Takes what happened. What is gone meanwhile is skipped."""
    for r in said.get("instances") or []:
        instance = find_instance(r["id"])
        if instance is None:
            continue
        if r.get("console") is not None:
            instance._lab_console = r["console"]
        if r.get("state"):
            instances.report(instance, r["state"], r.get("reason", ""))
    for r in said.get("volumes") or []:
        volume = find("volumes", r["id"])
        if volume is not None:
            VOLUME_REPORTS[r["event"]](volume, r.get("instance"))
    for wanted in said.get("snapshots") or []:
        snapshot = find("snapshots", wanted)
        if snapshot is not None:
            volumes.report_snapshot(snapshot)


def set_status(said):
    instance = find_instance(said["id"])
    if instance is None:
        raise KeyError(said["id"])
    instance._lab_checks = {kind: said.get(kind) or "ok" for kind in ("system", "instance", "volumes")}
    instance._lab_stuck = said.get("stuck") or 0
    instance._lab_events = [
        {
            "InstanceEventId": f"instance-event-{n}",
            "Code": e["code"],
            "Description": e["description"],
            "NotBefore": datetime.fromisoformat(e["notBefore"]) if e.get("notBefore") else utcnow(),
        }
        for n, e in enumerate(said.get("events") or [])
    ]


def set_parameters(said):
    for name, value in said["values"].items():
        versions = ssm_backends[ACCOUNT][said["region"]]._parameters[name]
        versions.append(
            Parameter(
                account_id=ACCOUNT,
                name=name,
                value=value,
                parameter_type="String",
                description=None,
                allowed_pattern=None,
                keyid=None,
                last_modified_date=utcnow(),
                version=len(versions) + 1,
                data_type="text",
            )
        )


def hold(said):
    TRANSITIONS.held = said["held"]


POSTS = {"/lab/report": report, "/lab/status": set_status, "/lab/hold": hold, "/lab/parameters": set_parameters}


def application(environ, start_response):
    request = Request(environ)
    if request.path == "/lab/world" and request.method == "GET":
        answer = Response(json.dumps(world(request.args.get("account"))), mimetype="application/json")
    elif request.path in POSTS and request.method == "POST":
        try:
            POSTS[request.path](json.loads(request.get_data()))
            answer = Response(status=204)
        except KeyError as missing:
            answer = Response(f"unknown: {missing}", status=400)
    else:
        answer = Response(status=404)
    return answer(environ, start_response)
