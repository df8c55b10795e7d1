"""What moto 5.2.4 drops of a registered image."""

from moto.ec2.responses.amis import AmisResponse

_register_image = AmisResponse.register_image


def register_image(self):
    answer = _register_image(self)
    image = self.ec2_backend.amis[answer.result["ImageId"]]
    image.architecture = self._get_param("Architecture", "x86_64")
    image.root_device_name = self._get_param("RootDeviceName", "/dev/sda1")
    image.root_device_type = "ebs"
    image.virtualization_type = self._get_param("VirtualizationType", "hvm")
    return answer


def install():
    AmisResponse.register_image = register_image
