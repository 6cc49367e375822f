"""KServe's Open Inference Protocol (V2): tensors of instances, and tensors of what is predicted for them.

Each instance is an element of one input of BYTES: the JSON that it would be in a request of V1.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from stream_apple.http.serving.questions import BadRequestError
from stream_apple.learners.losses import Loss

SERVER, INPUT, AS_OF = "stream_apple", "instances", "as_of"

_to_json = msgspec.json.Encoder().encode


class _Tensor(msgspec.Struct):
    name: str
    shape: list[int]
    datatype: str
    data: list[str]


class _Wanted(msgspec.Struct):
    name: str


class _Body(msgspec.Struct):
    inputs: list[_Tensor]
    id: str | None = None
    outputs: list[_Wanted] = []


class InferRequest(NamedTuple):
    """Holds what a request asks.

    instances  each as its JSON
    outputs    names of the tensors that the reply must have; empty: all
    """

    id: str | None
    instances: Sequence[bytes]
    outputs: frozenset[str]


_read = msgspec.json.Decoder(_Body).decode


class OpenInference:
    """Reads requests and makes replies of models with such a loss.

    classes  number of classes, with softmax
    most     instances of a request
    """

    def __init__(self, model: str, loss: Loss, classes: int, most: int) -> None:
        self._most = most
        self._model = model
        columns = {"prediction": [-1]}
        if not loss.real_valued:
            columns["probability"] = [-1]
        if classes:
            columns["probabilities"] = [-1, classes]
        self._columns = columns

    def metadata(self) -> dict[str, Any]:
        """Return what the model takes and gives."""
        outputs = [{"name": name, "datatype": "FP64", "shape": shape} for name, shape in self._columns.items()]
        return {
            "name": self._model,
            "platform": SERVER,
            "inputs": [{"name": INPUT, "datatype": "BYTES", "shape": [-1]}],
            "outputs": [*outputs, {"name": AS_OF, "datatype": "BYTES", "shape": [-1]}],
        }

    def read(self, body: bytes) -> InferRequest:
        """Return what is asked; BadRequestError if the body is no such request."""
        try:
            found = _read(body)
        except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as error:
            told = f"expected a request of the Open Inference Protocol in JSON, found {error}"
            raise BadRequestError(400, told) from None
        wanted = frozenset(each.name for each in found.outputs)
        if unknown := wanted - {*self._columns, AS_OF}:
            known = ", ".join((*self._columns, AS_OF))
            raise BadRequestError(400, f"outputs: expected some of {known}, found {', '.join(sorted(unknown))[:200]}")
        if len(found.inputs) != 1 or found.inputs[0].name != INPUT:
            names = ", ".join(each.name for each in found.inputs)[:200] or "none"
            raise BadRequestError(400, f"inputs: expected one, {INPUT}, found {names}")
        tensor = found.inputs[0]
        if tensor.datatype != "BYTES" or tensor.shape != [len(tensor.data)]:
            raise BadRequestError(
                400,
                f"inputs: expected {INPUT} of datatype BYTES and shape [{len(tensor.data)}], as it has that many "
                f"elements, found {tensor.datatype[:20]} and {str(tensor.shape)[:100]}",
            )
        if len(tensor.data) > self._most:
            raise BadRequestError(413, f"expected at most {self._most} instances, found {len(tensor.data)}")
        return InferRequest(found.id, [each.encode() for each in tensor.data], wanted)

    def reply(self, asked: InferRequest, told: Mapping[str, Any]) -> dict[str, Any]:
        """Return the reply to `asked`; `told` is that of V1's `:predict`."""
        predictions, count = told["predictions"], len(told["predictions"])
        tensors = []
        for name, (_, *more) in self._columns.items():
            if more:
                data = [value for each in predictions for value in each[name].values()]
            else:
                data = [each[name] for each in predictions]
            tensors.append({"name": name, "datatype": "FP64", "shape": [count, *more], "data": data})
        as_of = [_to_json(each).decode() for each in told["as_of"]]
        tensors.append({"name": AS_OF, "datatype": "BYTES", "shape": [count], "data": as_of})
        return {
            "model_name": self._model,
            "model_version": told["model"],
            **({} if asked.id is None else {"id": asked.id}),
            "outputs": [each for each in tensors if not asked.outputs or each["name"] in asked.outputs],
        }
