"""Idempotency by ClientToken, as RunInstances and CreateVolume promise it."""

from moto.core.responses import ActionResult
from moto.ec2.exceptions import EC2ClientError

TOKEN_LIMIT = 64  # characters, EC2 API reference

# What a client may change between two tries of the same request.
_FREE = {"ClientToken", "DryRun", "Version"}


def idempotent(response, create):
    """Answers with what the request's token made before, or with create().

    A token whose instance is terminated answers with the dead instance.
    """
    token = response.data.get("ClientToken", [""])[0]
    if not token:
        return create()
    if len(token) > TOKEN_LIMIT:
        raise EC2ClientError("InvalidParameterValue", f"Client token is longer than {TOKEN_LIMIT} characters.")
    made = response.ec2_backend.__dict__.setdefault("_lab_tokens", {})
    key = (response.data["Action"][0], token)
    wanted = {k: v for k, v in response.data.items() if k not in _FREE}
    if key in made:
        before, result = made[key]
        if before != wanted:
            raise EC2ClientError(
                "IdempotentParameterMismatch",
                "Arguments on this idempotent request are inconsistent with arguments used in previous request(s).",
            )
        return ActionResult(result)
    answer = create()
    made[key] = (wanted, answer.result)
    return answer
