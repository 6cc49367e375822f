"""The page of a replica in a real browser: an example is pasted, and its score is there as a sum."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from status_page.browser import Browser
from status_page.contrast import LOW_CONTRAST
from support.asgi import SOFTMAX, FixedReplicas, application_of, learned
from support.planted_pair import PAIR
from support.records import HOUR, START, FakeRecord
from support.served import served

from stream_apple.records.message.example import Example, encode_example
from stream_apple.stream.model.partition_model import ModelSettings, PartitionModel

PHONE, DESK = (360, 740), (1280, 900)
HOSTILE = "<img src=x onerror=window.hacked=1>"
EXAMPLE = {"features": {"price": 1.5, "country=de": 1.0, HOSTILE: 0.25, "never": 1.0}}
TERMS = "#terms tbody tr"


@contextmanager
def replica(model: PartitionModel | None, settings: ModelSettings | None = None) -> Iterator[str]:
    """The address of a server that answers by such models."""
    options = {} if settings is None else {"settings": settings}
    with served(application_of(FixedReplicas([model]), **options, body=20_000, body_s=5.0)) as port:  # type: ignore[arg-type]
        yield f"http://127.0.0.1:{port}/"


@pytest.fixture(scope="module")
def model() -> PartitionModel:
    """One that has found the pair, and has learned a feature that is HTML."""
    found = learned(count=2_000)
    payload = encode_example(Example(1.0, 1.0, None, {HOSTILE: 1.0}))
    found.process([FakeRecord(0, at, payload, START + 8 * HOUR) for at in range(2_000, 2_010)])
    return found


@pytest.fixture(scope="module")
def address(model: PartitionModel) -> Iterator[str]:
    """Where a replica answers."""
    with replica(model) as found:
        yield found


@pytest.fixture
def page(browser: Browser, address: str) -> Browser:
    """The page, which has found its replica."""
    browser.screen(*DESK)
    browser.leave()
    browser.requested()
    browser.open(address)
    browser.wait_until("return document.querySelector('#state-text').innerText === 'ready'")
    return browser


def paste(page: Browser, text: str) -> None:
    """Put an example into its place, and ask."""
    page.run("document.querySelector('#instance').value = arguments[0]", text)
    page.click("#ask")


def test_an_example_is_explained(page: Browser, address: str, model: PartitionModel) -> None:
    """By name, the largest first; what is shown in full sums to the score to the bit; nothing is learned."""
    before = model.digest()
    paste(page, json.dumps(EXAMPLE))
    page.wait_until(f"return document.querySelectorAll('{TERMS}').length > 3")
    names = page.texts(f"{TERMS} th")
    assert {"price", "country=de", PAIR, "(constant)", HOSTILE} <= set(names)
    assert "never" not in names
    assert page.run("return window.hacked") is None
    amounts = [
        float(each)
        for each in page.run(f"return [...document.querySelectorAll('{TERMS} td:nth-child(4)')].map(e => e.title)")
    ]
    total = 0.0
    for amount in amounts:
        total += amount
    assert total == float(page.run("return document.querySelector('#score').title"))
    assert "score --as-of 0@2010" in page.text("#as-of")
    assert model.digest() == before
    assert {urlsplit(url).netloc for url in page.requested() if url.startswith("http")} == {urlsplit(address).netloc}
    assert page.complaints() == []


def test_what_cannot_be_explained_is_said(page: Browser) -> None:
    """In the words of the reply; the answer before is gone. What is right then is answered again."""
    paste(page, json.dumps(EXAMPLE))
    page.wait_until("return !document.querySelector('#answer').hidden")
    for text, said in (
        ("", "expected an example"),
        ("price: 3", "expected a body of JSON"),
        ('{"features": 3}', "instance 0"),
        ('{"features": {}}, {"features": {}}', "expected one example, found 2"),
        (json.dumps({"features": {"a": 1.0}, "note": "x" * 30_000}), "at most 20000 bytes"),
    ):
        paste(page, text)
        page.wait_until("return document.querySelector('#refused').innerText.includes(arguments[0])", said)
        assert page.run("return document.querySelector('#answer').hidden")
    page.run("document.querySelector('#instance').value = ''")
    page.keys("#instance", json.dumps({"features": {"price": 1.0}}) + "\ue009\ue007")  # Ctrl and Enter
    page.wait_until("return document.querySelector('#refused').hidden")
    assert page.text("#score")


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("size", [PHONE, DESK], ids=["phone", "desk"])
def test_is_readable(page: Browser, tmp_path: Path, size: tuple[int, int], dark: bool) -> None:  # noqa: FBT001
    """On a phone nothing is wider than the screen; in both schemes every text has a contrast of 4.5 and more."""
    page.screen(*size, dark=dark)
    paste(page, json.dumps(EXAMPLE))
    page.wait_until(f"return document.querySelectorAll('{TERMS}').length > 3")
    assert page.run("return document.documentElement.scrollWidth") <= size[0]
    page.wait_until(f"return (() => {{ {LOW_CONTRAST} }})().length === 0", seconds=10)
    page.picture(tmp_path / "page.png")
    assert (tmp_path / "page.png").stat().st_size > 10_000


def test_of_classes_the_most_probable_one_is_explained(browser: Browser) -> None:
    """And said so."""
    model = PartitionModel("examples", 0, learned().lineage, SOFTMAX, SOFTMAX.decoder())
    with replica(model, SOFTMAX) as address:
        browser.open(address)
        paste(browser, json.dumps(EXAMPLE))
        browser.wait_until("return document.querySelector('#score-more').innerText.startsWith('of class ')")


def test_a_replica_without_a_model_says_so(browser: Browser) -> None:
    """It is not ready, and answers nothing."""
    with replica(None) as address:
        browser.open(address)
        browser.wait_until("return document.querySelector('#state-text').innerText.startsWith('not ready')")
        paste(browser, json.dumps(EXAMPLE))
        browser.wait_until(
            "return document.querySelector('#refused').innerText.includes('expected a model of partition 0')"
        )
