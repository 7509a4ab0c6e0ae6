from hypothesis import given
from hypothesis import strategies as st

from eagle_assets.openrouter.redaction import REDACTED, StreamRedactor, redacted

KEY = "sk-or-sk-key"
PIECES = st.lists(
    st.sampled_from([b"sk-or-", b"sk-key", b"s", b"k", b"-", b"or-sk", b"text ", b"\xff", b""]), max_size=20
)


@given(PIECES)
def test_a_stream_comes_through_without_the_key_however_it_is_cut(pieces: list[bytes]) -> None:
    redactor = StreamRedactor(KEY)
    out = b"".join(map(redactor.feed, pieces)) + redactor.rest()
    assert out == b"".join(pieces).replace(KEY.encode(), REDACTED.encode())
    assert KEY.encode() not in out


def test_pieces_without_the_key_are_not_held_back() -> None:
    assert StreamRedactor(KEY).feed(b"data: {}\n\n") == b"data: {}\n\n"
    assert redacted(f"Bearer {KEY}", KEY) == f"Bearer {REDACTED}"


@given(PIECES, st.sampled_from(["", "none", "k", "sk-or-sk"]))
def test_what_is_no_secret_leaves_every_byte_as_it_came(pieces: list[bytes], key: str) -> None:
    redactor = StreamRedactor(key)
    assert b"".join(map(redactor.feed, pieces)) + redactor.rest() == b"".join(pieces)
    assert redacted("nonetheless", key) == "nonetheless"
