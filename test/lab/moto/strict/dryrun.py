"""DryRun of the reading calls: most of moto's ignore it."""

from moto.ec2.responses import EC2Response


def reading(call):
    def answer(self):
        result = call(self)
        self.error_on_dryrun()
        return result

    return answer


def install():
    for name in dir(EC2Response):
        if name.startswith("describe_") or name == "get_console_output":
            call = getattr(EC2Response, name)
            if callable(call):
                setattr(EC2Response, name, reading(call))
