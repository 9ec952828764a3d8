"""Any bytes are a response, and any text is bytes."""

from hypothesis import given
from hypothesis import strategies as st

from assay.core.tools.response import response_bytes, response_text


@given(st.binary(max_size=200))
def test_the_text_of_a_response_gives_its_bytes_back(response: bytes) -> None:
    assert response_text(response).encode("utf-8", "surrogateescape") == response
    assert response_bytes(response) == response


@given(st.text(st.characters(exclude_categories=[]), max_size=50))
def test_any_text_is_bytes_and_ordinary_text_is_its_utf8(text: str) -> None:
    sent = response_bytes(text)
    if not any(0xD800 <= ord(char) <= 0xDFFF for char in text):
        assert (sent, response_text(sent)) == (text.encode(), text)
