"""What is written about a record that can't be used, and how it is read back."""

import pytest
from support.records import dead_letter_headers, good

from stream_apple.records.message.reasons import Reason
from stream_apple.stream.log.ports import Header
from stream_apple.stream.model.dead_letters import (
    RENAMED,
    RESERVED,
    DeadLetterOrigin,
    Reject,
    dead_letter_origin,
)

MODEL = "0f3b0f3b0f3b0f3b"


class TestHeaders:
    """The form of a dead letter."""

    def test_own_headers_come_first_and_unchanged(self) -> None:
        """Repeated and empty headers stay as they are; what we add is UTF-8 text."""
        record = good(12)._replace(extra=[("a", b"\xff"), ("a", None)])
        headers = dead_letter_headers(Reject(record, Reason.BAD_LABEL, "expected this"), "examples", "0f3b")
        assert headers == [
            ("a", b"\xff"),
            ("a", None),
            ("__stream_apple.errors.reason", b"bad_label"),
            ("__stream_apple.errors.message", b"expected this"),
            ("__stream_apple.errors.topic", b"examples"),
            ("__stream_apple.errors.partition", b"0"),
            ("__stream_apple.errors.offset", b"12"),
            ("__stream_apple.errors.model", b"0f3b"),
        ]

    def test_headers_that_look_like_ours_are_renamed(self) -> None:
        """Whether readers take the first of a name or the last, it is ours; and no message grows by it."""
        forged = [
            ("__stream_apple.errors.reason", b"far_future"),
            ("a", b"1"),
            ("__stream_apple.errors.offset", None),
            ("__stream_apple.errors.offset", b"7"),
            ("__stream_apple.errors", b"x"),
            ("__stream_apple.new", b""),
            ("__Stream_apple.new", b""),
        ]
        record = good(12)._replace(extra=forged)
        headers = dead_letter_headers(Reject(record, Reason.BAD_LABEL, "expected this"), "examples", MODEL)
        assert headers[:7] == [
            ("__from_record.errors.reason", b"far_future"),
            ("a", b"1"),
            ("__from_record.errors.offset", None),
            ("__from_record.errors.offset", b"7"),
            ("__from_record.errors", b"x"),
            ("__from_record.new", b""),
            ("__Stream_apple.new", b""),
        ]
        names = [name for name, _ in headers if name.startswith(RESERVED)]
        assert len(names) == len(set(names)) == 6
        assert len(RENAMED) <= len(RESERVED)
        letter = record._replace(extra=headers)
        expected = DeadLetterOrigin("bad_label", "expected this", "examples", 0, 12, MODEL)
        assert dead_letter_origin(letter) == expected
        again = dead_letter_headers(Reject(letter, Reason.BAD_ID, "m"), "examples", MODEL)
        assert dead_letter_origin(record._replace(extra=again)) == expected._replace(reason="bad_id", message="m")

    @pytest.mark.parametrize("headers", [None, [], [("__stream_apple.errors.reason", b"bad_id")]])
    def test_a_message_that_is_no_dead_letter(self, headers: list[Header] | None) -> None:
        """Anyone may write into the topic."""
        assert dead_letter_origin(good(1)._replace(extra=headers)) is None

    def test_a_record_without_headers_gets_ours_only(self) -> None:
        """None and a mapping are forms in which clients give headers."""
        reject = Reject(good(1), Reason.MALFORMED, "m")
        assert len(dead_letter_headers(reject, "t", "m")) == 6
        mapped = good(1)._replace(extra={"b": b"2"})  # type: ignore[arg-type]
        assert dead_letter_headers(reject._replace(record=mapped), "t", "m")[0] == ("b", b"2")
