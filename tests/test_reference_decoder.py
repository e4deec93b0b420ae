"""The reference decoder itself is right on real messages, and finds malformed ones."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from support.data_files import capture, captures, golden, in_stream_flags
from support.mutations import cuts, extended, random_mutations, replaced
from support.reference_decoder import Malformed, decode
from support.unusual_messages import LEGAL, MALFORMED, NO_READING, READINGS

# A prime: periodic workloads show every part of their period.
SAMPLE_STEP = 61

TAGS = b"BMCORYIUDTSEcAbPKrp"
CONTEXTS = (None, False, True)


def message(text: str) -> bytes:
    return bytes.fromhex(text)


def malformed_at(data: bytes, in_stream: bool | None, encoding: str = "utf-8") -> int:
    with pytest.raises(Malformed) as raised:
        decode(data, in_stream, encoding)
    return raised.value.at


@pytest.mark.parametrize("in_context", [True, False], ids=["context known", "context unknown"])
def test_golden_messages(in_context: bool) -> None:
    for source, data, in_stream, decoded in golden():
        assert decode(data, in_stream if in_context else None) == decoded, (source, data.hex())


def test_captured_messages_decode_the_same_with_and_without_context() -> None:
    for name in captures():
        messages = capture(name)
        in_context = list(zip(messages, in_stream_flags(messages), strict=True))
        for data, in_stream in in_context[::SAMPLE_STEP]:
            assert decode(data) == decode(data, in_stream), (name, data.hex())


def test_every_tag_is_in_the_golden_messages() -> None:
    assert {data[:1] for _, data, _, _ in golden()} == {bytes([tag]) for tag in TAGS}


@pytest.mark.parametrize("in_stream", CONTEXTS)
def test_a_message_of_zero_bytes_has_no_fields(in_stream: bool | None) -> None:
    assert decode(b"", in_stream) is None


def test_stream_abort_with_and_without_lsn_and_timestamp() -> None:
    short = message("41 0000035b 0000035f")
    assert decode(short) == {"type": "STREAM_ABORT", "xid": 859, "subxid": 863}
    assert decode(short + message("0000000000000000 0000000000000000")) == {
        "type": "STREAM_ABORT",
        "xid": 859,
        "subxid": 863,
        "lsn": 0,
        "timestamp": 946_684_800_000_000,
    }
    assert malformed_at(short + bytes(7), None) == 9
    assert malformed_at(short + bytes(15), None) == 17
    assert malformed_at(short + bytes(17), None) == 25


@pytest.mark.parametrize(("text", "in_stream"), LEGAL.values(), ids=LEGAL)
def test_unusual_messages_are_decoded(text: str, in_stream: bool | None) -> None:
    assert decode(message(text), in_stream) is not None


def test_lsn_is_signed_and_timestamp_counts_from_1970() -> None:
    assert decode(message("4f ffffffffffffffff 6100")) == {
        "type": "ORIGIN",
        "lsn": -1,
        "origin": "a",
    }
    last = decode(message(LEGAL["last timestamp"][0]))
    assert last is not None
    assert last["timestamp"] == 2**63 - 1


@pytest.mark.parametrize(("text", "in_stream", "at"), MALFORMED.values(), ids=MALFORMED)
def test_a_malformed_message_fails_at_the_right_byte(
    text: str, in_stream: bool | None, at: int
) -> None:
    assert malformed_at(message(text), in_stream) == at


def test_texts_have_the_given_encoding() -> None:
    latin = message("4f 0000000000000000 6ef66400")
    assert malformed_at(latin, None) == 9
    assert decode(latin, None, "latin-1") == {"type": "ORIGIN", "lsn": 0, "origin": "nöd"}
    value = message("49 00000001 4e 0001 74 00000002 82a0")
    assert decode(value, False, "shift_jis") == {
        "type": "INSERT",
        "relation_id": 1,
        "new": {"kinds": "t", "text": ["あ"], "binary": None},
    }


@pytest.mark.parametrize(("text", "xid"), READINGS.values(), ids=READINGS)
def test_the_right_reading_is_found_without_context(text: str, xid: int | None) -> None:
    fields = decode(message(text))
    assert fields is not None
    assert fields.get("xid") == xid
    assert fields == decode(message(text), xid is not None)


@pytest.mark.parametrize(("text", "at"), NO_READING.values(), ids=NO_READING)
def test_a_message_without_context_fails_where_the_longer_reading_fails(text: str, at: int) -> None:
    assert malformed_at(message(text), None) == at


def test_no_part_of_a_message_is_a_message() -> None:
    """The exception is a Stream Abort, whose first 9 bytes are a message too."""
    for (_, in_stream), data in shortest().items():
        for part in cuts(data):
            if part and not (data[:1] == b"A" and len(part) == 9):
                assert malformed_at(part, in_stream) <= len(part)
        for more in extended(data):
            assert malformed_at(more, in_stream) == len(data)


def shortest() -> dict[tuple[bytes, bool], bytes]:
    """Return the shortest message of each type and context."""
    return {
        (entry.data[:1], entry.in_stream): entry.data
        for entry in sorted(golden(), key=lambda entry: len(entry.data), reverse=True)
    }


def every_replacement() -> Iterator[bytes]:
    """Replace bytes in the shortest message of each type and context."""
    for data in shortest().values():
        yield from replaced(data)


def at_random() -> Iterator[bytes]:
    return random_mutations([entry.data for entry in golden()], 2_000, seed=1)


@pytest.mark.parametrize("mutations", [every_replacement, at_random])
def test_any_bytes_decode_or_are_malformed(mutations: Callable[[], Iterator[bytes]]) -> None:
    for data in mutations():
        for in_stream in CONTEXTS:
            try:
                decode(data, in_stream)
                at = 0
            except Malformed as malformed:
                at = malformed.at
            assert 0 <= at <= len(data), data.hex()


def test_mutations_are_the_same_in_every_run() -> None:
    messages = [entry.data for entry in golden()]
    assert list(random_mutations(messages, 100, 1)) == list(random_mutations(messages, 100, 1))
    assert list(random_mutations(messages, 100, 1)) != list(random_mutations(messages, 100, 2))
