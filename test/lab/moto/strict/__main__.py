"""moto's server with EC2's stricter rules, on a listening socket given as a file descriptor.

Arguments: one JSON object {"fd": int, "hypervisor": bool, "delay": seconds}.
"""

import json
import logging
import os
import sys

os.environ["MOTO_EC2_ENABLE_INSTANCE_TYPE_VALIDATION"] = "true"
os.environ["MOTO_ENABLE_AMI_VALIDATION"] = "true"

from moto import backends
from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import make_server

import dryrun
import images
import instances
import network
import volumes
import world
from transitions import LOCK, TRANSITIONS


def serialised(aws):
    """One request at a time: moto's store has no locks, and our rules look before they write."""

    def application(environ, start_response):
        with LOCK:
            TRANSITIONS.settle()
            chosen = world.application if environ["PATH_INFO"].startswith("/lab/") else aws
            return chosen(environ, start_response)

    return application


def remember_modules():
    """moto looks through its own folder at each request, which takes a third of its time."""
    modules = list(backends.list_of_moto_modules())
    backends.list_of_moto_modules = lambda: modules


def main():
    options = json.loads(sys.argv[1])
    TRANSITIONS.hypervisor, TRANSITIONS.delay = options["hypervisor"], options["delay"]
    for rules in (images, instances, volumes, network, dryrun):
        rules.install()
    remember_modules()
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    application = serialised(DomainDispatcherApplication(create_backend_app))
    make_server("127.0.0.1", 0, application, threaded=True, fd=options["fd"]).serve_forever()


main()
