"""`stream-apple explain`: shows a published prediction as a sum over named features."""

import json
import re
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING

import click
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from stream_apple.cli.options.common import CONFIG_OF_WORKERS, FROM_MODEL, load_with_model
from stream_apple.cli.options.parameters import WholeNumber, parsed_by
from stream_apple.cli.output import say, table_console
from stream_apple.errors import VerificationError

if TYPE_CHECKING:
    from stream_apple.app.explain import ExplainedPrediction
    from stream_apple.monitoring.explanation import Contribution, Explanation

_PLACE = re.compile(r"(\d{1,9})@(\d{1,18})", re.ASCII)
_MOST_CLASSES = 5  # in the table
_OTHERS = "({} others)"


def _place(text: str) -> tuple[int, int]:
    found = _PLACE.fullmatch(text)
    if found is None:
        raise ValueError(f"expected partition@offset of an example, such as 3@90210, found {text!r}")
    return int(found[1]), int(found[2])


@click.command()
@CONFIG_OF_WORKERS
@click.option(
    "--prediction",
    "place",
    required=True,
    callback=parsed_by(_place),
    metavar="PARTITION@OFFSET",
    help="The example that was answered, as `tail` shows it: its partition and offset in the examples topic.",
)
@click.option("--top", type=WholeNumber(1), default=20, show_default=True, help="How many rows of the table.")
@FROM_MODEL
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object, with all rows.")
def command(path: Path | None, place: tuple[int, int], top: int, from_model: Path | None, *, as_json: bool) -> None:
    """Show why an example was answered as it was: the score as a sum over named features.

    The partition's model is learned again up to the example: from its newest snapshot, if that is not later, else from
    its first record. The model then answers the example once more, and the answer is compared with the published one.

    The constant, each feature and each product of features has a row with its value in the example, its weight, and
    what it adds: value times weight. A mixture of predictors has a column for each, and its share in the published
    score; "(rest)" is the remainder that no share explains, as scores are bounded, and as probabilities are mixed, not
    scores. The amounts of --json, added one after another in float64, give the published score to the last bit.

    The score is the expected label (squared loss) or the log-odds of label 1 (logistic). With classes there is a score
    for each: the logarithm of its probability, less the mean of these logarithms.

    Exits with 69 if Kafka does not answer, 70 if needed records are gone, 73 if the snapshot is damaged, 74 if the
    published answer is another one, 78 if there is no such prediction: the message says why.
    """
    # This imports numba, for which `--help` and a mistyped option would wait.
    from stream_apple.app.explain import explain_from_kafka

    found = explain_from_kafka(load_with_model(path, from_model), *place)
    if as_json:
        say(json.dumps(found.facts()))
    else:
        _show(found, top)
    if found.equal is False:
        raise VerificationError(
            f"expected the prediction for {found.topic}-{found.partition}@{found.offset} to be {found.prediction}, as "
            f"the model gives it, found published: {found.published}"
        )


def _show(found: "ExplainedPrediction", top: int) -> None:
    console, prediction = table_console(), found.prediction
    # Anyone may have chosen the names in records, so they are never interpreted as markup.
    console.print(Text(f"{found.topic}-{found.partition}@{found.offset}", "bold"), Text(f"model {found.model}"))
    told = (
        f"{name} {prediction[name]}" for name in ("prediction", "probability", "label", "loss") if name in prediction
    )
    console.print(Text("  " + ", ".join(told)))
    console.print(Text(f"  {_held_against(found)}"))
    if len(found.explanations) > 1:
        _show_classes(console, found.explanations, top)
    else:
        _show_score(console, found.explanations[0], top)


def _held_against(found: "ExplainedPrediction") -> str:
    if found.equal is None:
        return "the predictions topic has no answer to this example: it is gone, or was not published"
    return "equal to what was published, to the byte" if found.equal else "what was published DIFFERS"


def _show_score(console: Console, explanation: "Explanation", top: int) -> None:
    table = Table(title=f"score {explanation.score!r}", box=box.SIMPLE_HEAD, title_justify="left")
    table.add_column("feature")
    for name in ("value", "weight", "adds", *(each.name for each in explanation.predictors)):
        table.add_column(name, justify="right")
    shown, others, ends = _rows(explanation, top)
    for each in shown:
        numbers = (f"{each.value:z.6g}", f"{each.weight:+z.6g}", f"{each.amount:+z.6g}")
        table.add_row(Text(each.name), *numbers, *(f"{amount:+z.4g}" for amount in each.predictors))
    if others:
        sums = (sum(amounts) for amounts in zip(*(each.predictors for each in others), strict=True))
        amount = f"{sum(each.amount for each in others):+z.6g}"
        table.add_row(_OTHERS.format(f"{len(others):,}"), "", "", amount, *(f"{part:+z.4g}" for part in sums))
    for each in ends:
        table.add_row(each.name, "", "", f"{each.amount:+z.6g}")
    predictors = explanation.predictors
    table.add_section()
    table.add_row("sum", "", "", f"{explanation.score:+z.6g}", *(f"{each.score:+z.4g}" for each in predictors))
    if predictors:
        table.add_row("share in what is published", "", "", "", *(f"{each.share:z.4g}" for each in predictors))
    console.print(table)


def _show_classes(console: Console, explanations: "list[Explanation]", top: int) -> None:
    """Print a column for each of the most probable classes; rows are in the order of the most probable one."""
    from stream_apple.monitoring.explanation import REST, ROUNDING

    best = sorted(explanations, key=lambda each: -each.score)[:_MOST_CLASSES]
    table = Table(box=box.SIMPLE_HEAD)
    table.add_column("feature")
    table.add_column("value", justify="right")
    for each in best:
        table.add_column(f"class {each.label}", justify="right")
    amounts = [_by_name(each) for each in best]
    values = {each.name: each.value for each in best[0].contributions if each.name not in {REST, ROUNDING}}
    names = list(values)
    for name in names[:top]:
        table.add_row(Text(name), f"{values[name]:z.6g}", *(f"{of_class[name]:+z.4g}" for of_class in amounts))
    if others := names[top:]:
        sums = (f"{sum(map(of_class.__getitem__, others)):+z.4g}" for of_class in amounts)
        table.add_row(_OTHERS.format(f"{len(others):,}"), "", *sums)
    table.add_row(REST, "", *(f"{of_class[REST] + of_class[ROUNDING]:+z.4g}" for of_class in amounts))
    table.add_section()
    table.add_row("sum", "", *(f"{each.score:+z.4g}" for each in best))
    console.print(table)


def _by_name(explanation: "Explanation") -> dict[str, float]:
    """Return the sum of contributions of each name: if names are not known, two products may have the same."""
    found = defaultdict[str, float](float)
    for each in explanation.contributions:
        found[each.name] += each.amount
    return found


def _rows(explanation: "Explanation", top: int) -> "tuple[list[Contribution], list[Contribution], list[Contribution]]":
    """Return the features' contributions that are shown, those that are not, and REST with those after it."""
    from stream_apple.monitoring.explanation import REST

    found = explanation.contributions
    ends = next(number for number, each in enumerate(found) if each.name == REST)
    return found[: min(top, ends)], found[min(top, ends) : ends], found[ends:]
