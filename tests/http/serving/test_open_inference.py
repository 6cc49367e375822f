"""KServe's Open Inference Protocol: what a client that is configured by the metadata sends and gets."""

import json
from typing import Any

import pytest
from support.asgi import SOFTMAX, FixedReplicas, Reply, application_of, call, learned

from stream_apple.stream.model.partition_model import PartitionModel

ROW = {"features": {"price": 1.0, "country=de": 1.0}}
INFER, PREDICT, METADATA = "/v2/models/clicks/infer", "/v1/models/clicks:predict", "/v2/models/clicks"


def tensor(count: int = 2, **other: Any) -> dict[str, Any]:
    """So many instances."""
    return {"name": "instances", "datatype": "BYTES", "shape": [count], "data": [json.dumps(ROW)] * count, **other}


def infer(replicas: FixedReplicas, asked: Any, path: str = INFER, **options: Any) -> Reply:
    """One request."""
    return call(application_of(replicas, **options), "POST", path, json.dumps(asked).encode())


def test_predictions_are_those_of_v1() -> None:
    """One for each instance, in their order; the request's id is echoed, and the version is that of the metadata."""
    replicas = FixedReplicas([learned()])
    told = infer(replicas, {"id": "42", "inputs": [tensor()]}).json()
    one = call(application_of(replicas), "POST", PREDICT, json.dumps({"instances": [ROW, ROW]}).encode()).json()
    tensors = {each["name"]: each for each in told["outputs"]}
    assert tensors["prediction"]["data"] == [each["prediction"] for each in one["predictions"]]
    assert [json.loads(each) for each in tensors["as_of"]["data"]] == one["as_of"]
    assert (told["id"], told["model_name"], told["model_version"]) == ("42", "clicks", one["model"])


@pytest.mark.parametrize("classes", [False, True])
def test_the_metadata_describes_every_tensor(classes: bool) -> None:  # noqa: FBT001
    """By name, datatype, and shape, where -1 is the number of instances."""
    replicas = FixedReplicas([learned()])
    options: dict[str, Any] = {}
    if classes:
        replicas = FixedReplicas([PartitionModel("examples", 0, learned().lineage, SOFTMAX, SOFTMAX.decoder())])
        options = {"settings": SOFTMAX}
    metadata = call(application_of(replicas, **options), "GET", METADATA).json()
    (taken,) = metadata["inputs"]
    assert (taken["name"], taken["datatype"], taken["shape"]) == ("instances", "BYTES", [-1])
    told = infer(replicas, {"inputs": [tensor(3)]}, **options).json()
    described = [(each["name"], each["datatype"], each["shape"]) for each in metadata["outputs"]]
    assert [(each["name"], each["datatype"], [-1, *each["shape"][1:]]) for each in told["outputs"]] == described
    for each in told["outputs"]:
        assert len(each["data"]) == 3 * (each["shape"][1] if each["shape"][1:] else 1)
    assert ("probabilities" in [name for name, *_ in described]) == classes


def test_a_client_may_want_some_tensors() -> None:
    """And name the version."""
    replicas = FixedReplicas([learned()])
    asked = {"inputs": [tensor()], "outputs": [{"name": "prediction"}]}
    told = infer(replicas, asked, "/v2/models/clicks/versions/0123456789abcdef/infer").json()
    assert [each["name"] for each in told["outputs"]] == ["prediction"]
    assert infer(replicas, asked, "/v2/models/clicks/versions/2/infer").status == 404


@pytest.mark.parametrize(
    ("asked", "status", "message"),
    [
        ({"inputs": []}, 400, "inputs: expected one, instances, found none"),
        ({"inputs": [tensor(name="x")]}, 400, "inputs: expected one, instances, found x"),
        ({"inputs": [tensor(datatype="FP64")]}, 400, "expected instances of datatype BYTES"),
        ({"inputs": [tensor(shape=[3])]}, 400, "shape [2]"),
        ({"inputs": [tensor(data=[1.0])]}, 400, "expected a request of the Open Inference Protocol"),
        ({"inputs": [tensor()], "outputs": [{"name": "x"}]}, 400, "expected some of prediction, as_of, found x"),
        ({"inputs": [tensor(6)]}, 413, "expected at most 5 instances, found 6"),
        ({"inputs": [tensor(1, data=["{"])]}, 400, "instance 0: "),
        ({"inputs": [tensor(1, data=["3"])]}, 400, "instance 0: "),
    ],
)
def test_what_is_refused(asked: Any, status: int, message: str) -> None:
    """By which status, and with which words."""
    reply = infer(FixedReplicas([learned()]), asked)
    assert reply.status == status
    assert message in reply.json()["error"]
