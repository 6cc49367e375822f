"""Vowpal Wabbit text: one line -> one example, as Vowpal Wabbit itself reads it."""

from collections.abc import Iterator

import pytest
import vowpalwabbit
from hypothesis import given
from hypothesis import strategies as st

from stream_apple.files import ParseError
from stream_apple.files.vowpal_wabbit import parse_line
from stream_apple.records.message.example import Example

_UNLABELLED = 3.4028234663852886e38  # FLT_MAX, as Vowpal Wabbit marks it
_BITS = 18
_MASK = (1 << _BITS) - 1

Meaning = tuple[float, float, str, set[tuple[int, float]]]


class Oracle:
    """Vowpal Wabbit's own parser, for which a malformed line is an error."""

    def __init__(self) -> None:
        self._workspace = vowpalwabbit.Workspace(f"--quiet --no_stdin --noconstant --strict_parse -b {_BITS}")

    def parse(self, line: str) -> Meaning:
        """Label, importance, tag, and (hash, value) of each feature."""
        parsed = self._workspace.parse(line)
        features = {
            (parsed.feature(position, k) & _MASK, parsed.feature_weight(position, k))
            for position in range(parsed.num_namespaces())
            for k in range(parsed.num_features_in(position))
        }
        return parsed.get_simplelabel_label(), parsed.get_simplelabel_weight(), parsed.get_tag(), features

    def meaning(self, example: Example) -> Meaning:
        """The same of an example that was parsed by us."""
        features = set()
        for namespace, values in example.features.items():
            seed = self._workspace.hash_space(namespace) if namespace else 0
            assert isinstance(values, dict)
            for name, value in values.items():
                if value:  # Vowpal Wabbit drops zeros while it parses
                    features.add((self._workspace.hash_feature(name, seed) & _MASK, value))
        label = _UNLABELLED if example.label is None else example.label
        return label, example.weight, str(example.id or ""), features

    def close(self) -> None:
        """Free what the library holds."""
        self._workspace.finish()


@pytest.fixture(scope="module")
def oracle() -> Iterator[Oracle]:
    """One parser for all tests: starting it takes longer than they do."""
    oracle = Oracle()
    yield oracle
    oracle.close()


def test_every_part_of_a_line_has_its_place() -> None:
    """Label, importance, tag, namespaces with scale, values and their default."""
    line = "-1.5 2 'user-7 |f:2 a b:3 c:-0.5|site  example.com:1e2 |\tx"
    features = {"f": {"a": 2.0, "b": 6.0, "c": -1.0}, "site": {"example.com": 100.0}, "": {"x": 1.0}}
    assert parse_line(line) == Example(-1.5, 2.0, "user-7", features)


LINES = [
    "1 |f a b c",
    "1|f a",
    "|f a:2.5 b",
    " |f a",
    "0.5 |f a:1 b:0",
    "-1 0 |f a",
    "1 2.5 'tag |f a",
    "1 2.5 'tag|f a",
    "1 2.5 tag|f a",
    "'tag |f a",
    "tag|f a",
    "1 '|f a",
    "'|f a",
    "1 |f:2 a:3 b |f c |g d",
    "1 |f :1 :0 :2 b:3 :4",
    "1 |f:0.5 :2 :4|g :1",
    "1 |  a   b:2  ",
    "1 | a| b|| c",
    "1 |f a\tb:2\tc",
    "1 |f",
    "1 |f |g a",
    "1 |f 12:3 7",
    "1 |f #c:1 c++:2 a/b?x=y:3",
    "1 |f a:1e2 b:-1.5 c:+2",
    "1 |f\u00e9\u4e2d \u00e9:2 \u4e2d",
]


@pytest.mark.parametrize("line", LINES)
def test_a_line_means_what_it_means_to_vowpal_wabbit(line: str, oracle: Oracle) -> None:
    """Label, importance, tag, and every feature's hash and value equal those of Vowpal Wabbit's parser."""
    _assert_same(line, oracle)


_NAMES = st.text(st.sampled_from("abz09_-'#.\u00e9"), min_size=1, max_size=4)
# Whole numbers: Vowpal Wabbit's own reading of a fraction is off by a rounding (0.125 becomes 0.12499999).
_VALUES = st.integers(-64, 64)


@st.composite
def _lines(draw: st.DrawFn) -> str:
    label = draw(st.sampled_from(["", "1 ", "-1 ", "0.5 2 ", "1 0.25 'x-1 ", "'only ", "3 2 touching"]))
    sections = []
    for namespace in draw(st.lists(_NAMES, min_size=1, max_size=3, unique_by=lambda name: name[0])):
        names = draw(st.lists(_NAMES, min_size=1, max_size=4, unique=True))
        if "0" not in names and draw(st.booleans()):
            names.append("")  # will be named 0
        scale = draw(st.one_of(st.just(""), _VALUES.map(lambda value: f":{value} ")))
        tokens = [f"{name}:{draw(_VALUES)}" if not name or draw(st.booleans()) else name for name in names]
        sections.append(f"|{namespace}{scale} {draw(st.sampled_from([' ', '  ', chr(9)])).join(tokens)} ")
    return label + "".join(sections)


@given(line=_lines())
def test_generated_lines_mean_the_same_too(line: str, oracle: Oracle) -> None:
    """The same, over lines that nobody thought of."""
    _assert_same(line, oracle)


def _assert_same(line: str, oracle: Oracle) -> None:
    example = parse_line(line)
    assert example is not None
    assert oracle.meaning(example) == oracle.parse(line)


@pytest.mark.parametrize(
    "line", ["1 |f a:2 a:3 a b", "1 |f a:0 a:2 b", "1 |f a:2 |f a:3 b", "1 |f a:2 b |f:5 a", "1 |f a:0 |f a:2 b"]
)
def test_of_a_repeated_name_the_first_value_is_kept(line: str) -> None:
    """The learner counts a monomial once, so a name that stands twice has one value; zeros say nothing."""
    example = parse_line(line)
    assert example is not None
    assert example.features == {"f": {"a": 2.0, "b": 1.0}}


@pytest.mark.parametrize("line", ["", "  ", "\t"])
def test_a_blank_line_holds_no_example(line: str) -> None:
    """Vowpal Wabbit takes it for the end of a multi-line example, which single examples do not have."""
    assert parse_line(line) is None


@pytest.mark.parametrize("line", ["1 |f", "1 |", "1 |f |g:2  "])
def test_a_line_without_features_has_an_empty_map(line: str) -> None:
    """An empty namespace leaves no trace."""
    assert parse_line(line) == Example(1.0, 1.0, None, {})


@pytest.mark.parametrize(
    ("line", "expected", "found"),
    [
        ("1 2 3", "a bar '|' before the features", "'1 2 3'"),
        ("x |f a", "a finite number as label", "'x'"),
        ("inf |f a", "a finite number as label", "'inf'"),
        ("1 -2 |f a", "a weight of at least 0", "-2"),
        ("1 y |f a", "a finite number as weight", "'y'"),
        ("1 1 0.5 |f a", "at most label and weight (an initial prediction is not supported)", "'1 1 0.5 '"),
        ("1\t|f a", "spaces between label, weight and tag", "a tab in '1\\t'"),
        ("1 |:2 a", "a namespace's name, or a space, after the bar", "':2 a'"),
        ("1 |f:x a", "a finite number as scale of namespace f", "'x'"),
        ("1 |f colour:red", "a number below 2^60 in size as value of feature 'colour'", "'red'"),
        ("1 |f a:1:2", "a number below 2^60 in size as value of feature 'a'", "'1:2'"),
        ("1 |f a:", "a number below 2^60 in size as value of feature 'a'", "''"),
        ("1 |f a_b:1_0", "a number below 2^60 in size as value of feature 'a_b'", "'1_0'"),
        (
            "1 |f:1e20 b:1e20",
            "a number below 2^60 in size as value of feature 'b'",
            "1e+40 (times its namespace's scale)",
        ),
        (
            "1 |f:1e39 b",
            "a number below 2^60 in size as value of feature 'b'",
            "1e+39 (times its namespace's scale)",
        ),
    ],
)
def test_a_broken_line_says_what_was_expected_and_found(line: str, expected: str, found: str) -> None:
    """What Vowpal Wabbit would warn about, drop or read differently is refused."""
    with pytest.raises(ParseError) as caught:
        parse_line(line)
    assert str(caught.value) == f"expected {expected}, found {found}"


def test_nan_is_missing() -> None:
    """As a value, and as a label; a later value of the same name counts."""
    assert parse_line("1 |f a:1 b:nan c:nan c:2") == Example(1.0, 1.0, None, {"f": {"a": 1.0, "c": 2.0}})
    assert parse_line("nan |f a") == Example(None, 1.0, None, {"f": {"a": 1.0}})
