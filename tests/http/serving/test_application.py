"""The routes of `serve`: answers, and what is refused, by which status and with which words."""

import gzip
import json
from typing import Any

import msgpack
import numpy as np
import pytest
from support.asgi import MAPPED, SOFTMAX, FixedReplicas, Reply, application_of, call, learned
from support.planted_pair import SETTINGS

from stream_apple.learners.apple.learner import as_apple
from stream_apple.learners.scores import Scores
from stream_apple.monitoring.serving_metrics import ServingMetrics
from stream_apple.stream.model.partition_model import PartitionModel

ROW = {"price": 1.0, "country=de": 1.0, "noise3": 0.25}
PREDICT, EXPLAIN = "/v1/models/clicks:predict", "/v1/models/clicks:explain"


def ask(replicas: FixedReplicas, instances: Any, path: str = PREDICT, **options: Any) -> Reply:
    """One request in JSON."""
    return call(application_of(replicas, **options), "POST", path, json.dumps({"instances": instances}).encode())


def expected(model: PartitionModel) -> float:
    """The score of the row, by the learner itself."""
    decoded = SETTINGS.decoder().decode([json.dumps({"features": ROW}).encode()])
    scores = Scores.empty(1)
    model.learner.score_rows(decoded.batch, 0, 1, scores)
    return float(scores.predictions[0])


class TestPredict:
    """What is answered."""

    def test_an_answer_names_its_model(self) -> None:
        """The score is the learner's, to the bit; a label changes nothing, and neither does being asked."""
        model = learned()
        digest = model.digest()
        reply = ask(FixedReplicas([model]), [{"features": ROW}, {"features": ROW, "label": 9.5, "id": "x"}])
        assert reply.status == 200
        as_of = {"partition": 0, "offset": 600, "model": model.lineage.model}
        assert reply.json() == {
            "predictions": [{"prediction": expected(model)}] * 2,
            "as_of": [as_of, as_of],
            "model": "0123456789abcdef",
        }
        assert model.digest() == digest

    def test_msgpack(self) -> None:
        """Asked in msgpack, answered in msgpack, with the same numbers; a key may be bytes."""
        model = learned()
        body = msgpack.packb({"instances": [{"features": ROW, "key": b"\xff"}]})
        reply = call(
            application_of(FixedReplicas([model])), "POST", PREDICT, body, {"content-type": "application/msgpack"}
        )
        assert (reply.status, reply.headers["content-type"]) == (200, "application/msgpack")
        assert msgpack.unpackb(reply.body)["predictions"] == [{"prediction": expected(model)}]

    def test_the_partition_is_the_keys_or_the_one_that_is_named(self) -> None:
        """Each instance by the model of its own; answers are in the order of the instances."""
        models = [learned(count=600), learned(count=300), learned(count=100)]
        chosen: list[dict[str, Any]] = [
            {"key": "four"},
            {"partition": 2},
            {"key": 12},
            {"key": "four", "partition": 0},
        ]
        reply = ask(FixedReplicas(models), [{**each, "features": ROW} for each in chosen])
        assert [each["offset"] for each in reply.json()["as_of"]] == [300, 100, 100, 600]
        assert [each["prediction"] for each in reply.json()["predictions"]] == [
            expected(models[number]) for number in (1, 2, 2, 0)
        ]

    def test_any_model_will_do_where_they_are_merged(self) -> None:
        """One that is there; neither key nor partition is needed."""
        model = learned()
        reply = ask(FixedReplicas([None, model], merged=True), [{"features": ROW}])
        assert reply.json()["predictions"] == [{"prediction": expected(model)}]

    def test_classes_have_all_probabilities_by_name(self) -> None:
        """In the order of their labels; they sum to 1, and the prediction is the most probable one."""
        model = PartitionModel("examples", 0, learned().lineage, SOFTMAX, SOFTMAX.decoder())
        (told,) = ask(FixedReplicas([model]), [{"features": ROW}], settings=SOFTMAX).json()["predictions"]
        assert list(told["probabilities"]) == ["0", "1", "2"]
        assert np.isclose(sum(told["probabilities"].values()), 1.0)
        assert told["probability"] == max(told["probabilities"].values())
        assert told["probabilities"][str(told["prediction"])] == told["probability"]

    def test_records_of_another_shape(self) -> None:
        """With an input mapping an instance has the record as `record`; the key is beside it, and no feature."""
        model = learned()
        flat = {"price": 1.0, "country": "de", "noise3": 0.25}
        reply = ask(FixedReplicas([model]), [{"record": flat, "key": "u1"}], settings=MAPPED)
        assert reply.json()["predictions"] == [{"prediction": expected(model)}]
        reply = ask(FixedReplicas([model]), [{"features": ROW}], settings=MAPPED)
        assert reply.status == 400
        assert "found no record" in reply.json()["instances"][0]["message"]
        reply = ask(FixedReplicas([model]), [{"record": "not base64!"}], settings=MAPPED)
        message = "expected a map as record, or a framed one in base64, found 'not base64!'"
        assert reply.json()["instances"][0]["message"] == message

    def test_no_instances(self) -> None:
        """Are no error."""
        assert ask(FixedReplicas([learned()]), []).json()["predictions"] == []


class TestExplain:
    """Why."""

    def test_contributions_by_name(self) -> None:
        """Names are those of the instance itself; the contributions sum to the prediction."""
        model = learned(count=2_000)
        told = ask(FixedReplicas([model]), [{"features": ROW}], EXPLAIN).json()
        contributions = told["explanations"][0]["contributions"]
        assert {each["name"] for each in contributions} >= {"price", "country=de", "(constant)", "(rest)"}
        assert not any("?" in each["name"] for each in contributions)
        assert np.isclose(sum(each["amount"] for each in contributions), told["predictions"][0]["prediction"])

    def test_models_of_classes(self) -> None:
        """Have a score for each class: that of the prediction is explained."""
        model = PartitionModel("examples", 0, learned().lineage, SOFTMAX, SOFTMAX.decoder())
        told = ask(FixedReplicas([model]), [{"features": ROW}], EXPLAIN, settings=SOFTMAX).json()
        (found,) = told["explanations"]
        assert found["label"] == told["predictions"][0]["prediction"]
        assert np.isclose(sum(each["amount"] for each in found["contributions"]), found["score"])


class TestRefused:
    """What can't be answered."""

    def test_each_bad_instance_is_named(self) -> None:
        """The request is refused as a whole; good instances among the bad ones are not named."""
        instances = [{"features": ROW}, {"features": 3}, {"weight": 1}, {"features": {"a": 1e300}}, {"features": ROW}]
        reply = ask(FixedReplicas([learned()]), instances)
        assert reply.status == 400
        told = reply.json()
        assert [(each["index"], each["reason"]) for each in told["instances"]] == [
            (1, "wrong_type"),
            (2, "no_features"),
            (3, "bad_value"),
        ]
        assert "instance 1: expected a map of names" in told["error"]
        assert "predictions" not in told

    def test_faults_of_all_kinds_are_named_together(self) -> None:
        """What is no instance, what nobody can choose a model for, and what can't be decoded; one fault of each."""
        good = {"features": ROW, "key": "k"}
        instances = [good, 3, {"features": ROW}, {"features": 3, "key": "k"}, {"features": 3, "key": [1]}, {}, good]
        reply = ask(FixedReplicas([learned(), learned()]), instances, most=7)
        assert reply.status == 400
        assert [(each["index"], each["reason"]) for each in reply.json()["instances"]] == [
            (1, "wrong_type"),
            (2, "no_partition"),
            (3, "wrong_type"),
            (4, "wrong_type"),
            (5, "no_partition"),
        ]

    @pytest.mark.parametrize(
        ("instance", "message"),
        [
            (3, "Expected `object`"),
            (None, "Expected `object`"),
            ({"features": ROW, "key": 1.5}, "expected a key that is a text or a whole number"),
            ({"features": ROW, "key": True}, "expected a key"),
            ({"features": ROW, "key": ["k" * 500]}, "expected a key"),
            ({"features": ROW, "partition": "1"}, "Expected `int | null`"),
            ({"features": ROW, "partition": True}, "Expected `int | null`"),
            ({"features": ROW, "partition": 2}, "expected a partition from 0 to 1, found 2"),
            ({"features": ROW, "partition": -1}, "expected a partition from 0 to 1, found -1"),
            ({"features": ROW}, 'expected a "key" or a "partition", there being 2 models'),
            ({"features": ROW, "key": "k", "label": "yes"}, "expected a number or null"),
        ],
    )
    def test_instances(self, instance: object, message: str) -> None:
        """Faults of an instance besides its features."""
        reply = ask(FixedReplicas([learned(), learned()]), [{"features": ROW, "partition": 0}, instance])
        assert reply.status == 400
        (told,) = reply.json()["instances"]
        assert told["index"] == 1
        assert message in told["message"]
        assert len(told["message"]) < 300

    @pytest.mark.parametrize(
        ("instance", "name"),
        [
            (b'{"features": {"a": 1}, "key": "a", "key": "b"}', "key"),
            (b'{"features": {"a": 1}, "partition": 0, "\\u0070artition": 1}', "partition"),
            (b'{"key": "a", "features": {"a": 1}, "x": [{"key": 1}, "\xc3\xbc", 1e999], "key": "a"}', "key"),
        ],
    )
    def test_an_instance_that_says_twice_whose_model_answers(self, instance: bytes, name: str) -> None:
        """None of two is silently the right one, in either form, however it is written."""
        replicas = FixedReplicas([learned(), learned()])
        reply = call(application_of(replicas), "POST", PREDICT, b'{"instances": [' + instance + b"]}")
        assert reply.status == 400
        (told,) = reply.json()["instances"]
        assert (told["index"], told["reason"]) == (0, "duplicate_key")
        assert told["message"] == f'expected "{name}" once, found it 2 times'
        pairs = json.loads(instance, object_pairs_hook=list)
        packed = msgpack.Packer()
        body = b"\x81\xa9instances\x91" + packed.pack_map_header(len(pairs))
        body += b"".join(
            packed.pack(part) for one, value in pairs for part in (one, dict(value) if one == "features" else value)
        )
        reply = call(application_of(replicas), "POST", PREDICT, body, {"content-type": "application/msgpack"})
        assert reply.status == 400
        assert f'expected "{name}" once'.encode() in reply.body

    @pytest.mark.parametrize(
        "instance",
        [
            b'{"features": {"key": 1, "partition": 1}, "key": "a"}',
            b'{"features": {"a": 1}, "key": "key key \\u006b", "x": {"key": 1, "y": {"key": 1}}}',
            b'{"features": {"\\u006bey": 1}, "key": "a", "x": 1, "x": 2}',
        ],
    )
    def test_a_name_that_stands_elsewhere_too(self, instance: bytes) -> None:
        """Names of features, texts, and what is in maps further in are no second member; other names may repeat."""
        body = b'{"instances": [' + instance + b'], "instance": 1, "instance": 2}'
        reply = call(application_of(FixedReplicas([learned(), learned()])), "POST", PREDICT, body)
        assert reply.status == 200, reply.body

    def test_instances_that_come_twice(self) -> None:
        """Half of what was asked would have no answer."""
        body = b'{"instances": [{"features": {"a": 1}}], "instances": []}'
        reply = call(application_of(FixedReplicas([learned()])), "POST", PREDICT, body)
        assert reply.status == 400
        assert 'found another: expected "instances" once, found it 2 times' in reply.json()["error"]

    @pytest.mark.parametrize(
        "body",
        [
            b"",
            b"{",
            b"[]",
            b"null",
            b'{"instances": 3}',
            b'{"instances": {}}',
            b"{}",
            b'{"instances": [{"features": {"a": NaN}}]}',
            b'{"instances": [{"features": {"a": 1}}]} more',
            b"\xff\xfe",
            b'{"instances": [' + b"[" * 900 + b"]" * 900 + b"]}",
            b'{"instances": [{"features": {"a": ' + b"[" * 900 + b"]" * 900 + b"}}]}",
        ],
    )
    def test_bodies(self, body: bytes) -> None:
        """What is no request."""
        reply = call(application_of(FixedReplicas([learned()])), "POST", PREDICT, body)
        assert reply.status == 400
        assert "expected" in reply.json()["error"].lower()

    @pytest.mark.parametrize("depth", [100_000, 1_500_000])
    def test_what_is_nested_without_an_end(self, depth: int) -> None:
        """Neither form ends the process."""
        deep = application_of(FixedReplicas([learned()]), body=4_000_000)
        reply = call(deep, "POST", PREDICT, b'{"instances": [' + b"[" * depth)
        assert reply.status == 400
        reply = call(
            deep, "POST", PREDICT, b"\x81\xa9instances\x91" + b"\x91" * depth, {"content-type": "application/msgpack"}
        )
        assert reply.status == 400

    def test_a_msgpack_body_that_claims_more_than_it_has(self) -> None:
        """Nothing is made for instances that are not there."""
        body = b"\x81\xa9instances\xdd\xff\xff\xff\xff\x80"
        reply = call(
            application_of(FixedReplicas([learned()])), "POST", PREDICT, body, {"content-type": "application/msgpack"}
        )
        assert reply.status == 400

    def test_too_much(self) -> None:
        """Instances, and bytes: those that are announced, and those that come all the same."""
        replicas = FixedReplicas([learned()])
        reply = ask(replicas, [{"features": ROW}] * 6)
        assert (reply.status, "at most 5 instances, found 6" in reply.json()["error"]) == (413, True)
        application = application_of(replicas)
        assert call(application, "POST", PREDICT, b" " * 3_000).status == 413
        assert call(application, "POST", PREDICT, [b" " * 900] * 3).status == 413
        assert call(application, "POST", PREDICT, b"{}", {"content-length": "-1"}).status == 413
        assert call(application, "POST", PREDICT, b"{}", {"content-length": "9" * 30}).status == 413

    def test_bodies_beyond_the_memory_for_them(self) -> None:
        """503 until another one is answered; each counts as 64 KiB at least, and one without a length as it comes."""
        replicas = FixedReplicas([learned()])
        full = application_of(replicas, body=200_000, pending=65_000)
        reply = call(full, "POST", PREDICT, b'{"instances": []}')
        assert (reply.status, reply.headers["retry-after"]) == (503, "1")
        assert "bodies of at most 65000 bytes" in reply.json()["error"]
        roomy = application_of(replicas, body=200_000, pending=70_000)
        for _ in range(3):
            assert call(roomy, "POST", PREDICT, b'{"instances": []}').status == 200
            assert call(roomy, "POST", PREDICT, [b" " * 60_000] * 2).status == 503

    def test_a_body_that_does_not_come(self) -> None:
        """Is waited for no longer than it may take."""
        reply = call(application_of(FixedReplicas([learned()])), "POST", PREDICT, [])
        assert reply.status == 408

    def test_other_forms_and_names(self) -> None:
        """415 for another type of body, 404 for another model and other paths, 405 for another method."""
        application = application_of(FixedReplicas([learned()]))
        assert call(application, "POST", PREDICT, b"a=1", {"content-type": "text/csv"}).status == 415
        assert call(application, "POST", "/v1/models/other:predict", b"{}").status == 404
        assert call(application, "GET", "/v1/models/other").json() == {
            "error": "expected the model 'clicks', found 'other'"
        }
        asking = "questions are POSTed to /v1/models/NAME:predict and :explain, and /v2/models/NAME/infer"
        for method, path, found in (
            ("GET", "/nothing", "expected another path, found GET '/nothing'"),
            ("GET", "/v1/models/clicks/", "expected another path, found GET '/v1/models/clicks/'"),
            ("POST", "/v1/models/clicks:learn", "expected GET or HEAD, found POST '/v1/models/clicks:learn'"),
        ):
            assert call(application, method, path, b"{}").json() == {"error": f"{found}; {asking}"}
        zipped = call(application, "POST", PREDICT, gzip.compress(b"{}"), {"content-encoding": "gzip"})
        assert (zipped.status, zipped.json()["error"]) == (
            415,
            "expected a body that is not compressed, found the encoding 'gzip'",
        )
        plain = call(application, "POST", PREDICT, b'{"instances": []}', {"content-encoding": "identity"})
        assert plain.status == 200
        assert call(application, "POST", PREDICT, b"").json()["error"].endswith("found none")
        asked = call(application, "GET", PREDICT)
        assert (asked.status, asked.headers["allow"]) == (405, "POST")
        assert asked.json() == {"error": "expected POST, found GET"}
        assert call(application, "PUT", PREDICT).status == 405

    def test_no_model_yet(self) -> None:
        """503, of that partition alone."""
        replicas = FixedReplicas([learned(), None])
        assert ask(replicas, [{"features": ROW, "partition": 0}]).status == 200
        reply = ask(replicas, [{"features": ROW, "partition": 1}])
        assert (reply.status, reply.headers["retry-after"]) == (503, "1")

    def test_a_score_that_is_not_finite(self) -> None:
        """Is an error of the server's, and no answer."""
        model = learned()
        as_apple(model.learner).table.slots["weight"] = np.inf
        reply = ask(FixedReplicas([model]), [{"features": ROW}])
        assert reply.status == 500
        assert "expected a finite score" in reply.json()["error"]


class TestAbout:
    """Health, metadata and metrics."""

    def test_health(self) -> None:
        """Live while its thread runs, ready when there is a model of each partition."""
        replicas = FixedReplicas([learned(), None])
        application = application_of(replicas)
        assert call(application, "GET", "/v2/health/live").json() == {"live": True}
        assert (call(application, "GET", "/v2/health/ready")).status == 503
        assert call(application, "GET", "/v1/models/clicks").status == 503
        replicas.by_partition[1].model = learned()
        assert call(application, "GET", "/v2/health/ready").json() == {"ready": True}
        assert call(application, "GET", "/v2/models/clicks/ready").status == 200
        told = call(application, "GET", "/v1/models/clicks").json()
        assert (told["name"], told["ready"]) == ("clicks", True)
        assert told["partitions"][0] == {"partition": 0, "offset": 600, "ready": True, "lag_records": 0}
        replicas.alive = False
        assert call(application, "GET", "/v2/health/live").status == 503

    def test_metadata(self) -> None:
        """The name, and which settings it is of."""
        application = application_of(FixedReplicas([learned()]))
        assert call(application, "GET", "/v1/models").json() == {"models": ["clicks"]}
        told = call(application, "GET", "/v2/models/clicks").json()
        assert (told["name"], told["versions"], told["platform"]) == ("clicks", ["0123456789abcdef"], "stream_apple")

    def test_metadata_of_the_server(self) -> None:
        """As V2 has it."""
        told = call(application_of(FixedReplicas([None])), "GET", "/v2").json()
        assert (told["name"], told["extensions"]) == ("stream_apple", [])

    def test_metrics(self) -> None:
        """Requests by status, and times."""
        metrics, model = ServingMetrics(), learned()
        application = application_of(FixedReplicas([model]), metrics=metrics)
        for body in (json.dumps({"instances": [{"features": ROW}]}).encode(), b"{"):
            call(application, "POST", PREDICT, body)
        text = call(application, "GET", "/metrics").body.decode()
        for status in (200, 400):
            assert f'stream_apple_serve_requests_total{{endpoint="predict",status="{status}"}} 1.0' in text
        assert 'stream_apple_serve_request_seconds_count{endpoint="predict"} 2.0' in text
