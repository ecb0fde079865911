"""What other programs say: no control character of it, no secret, and one line."""

from __future__ import annotations

import pytest

from genmix.core.text import describe_error, first_sentence, interval_text, printable, quotable

OBEYED = {
    "escape": "\x1b",
    "bell": "\x07",
    "backspace": "\x08",
    "delete": "\x7f",
    "nul": "\0",
    "one-byte CSI": "\x9b",
    "one-byte OSC": "\x9d",
    "override": "\u202e",
    "isolate": "\u2066",
    "mark": "\u200f",
    "half a character": "\ud83d",
    "other half": "\udc80",
    "tag": "\U000e0041",
    "byte order mark": "\ufeff",
}
NORMAL = (
    "Grüße aus Köln",
    "北京市, 東京都, Москва",
    "شهر می‌خواهم",
    "👩‍🔬 ❤️ 🏙",
    "naïve e\u0301 – “x” … ¼ ∞",
)


@pytest.mark.parametrize("character", OBEYED.values(), ids=OBEYED)
def test_what_a_terminal_would_obey_is_replaced(character: str) -> None:
    said = f"a{character}[31mb"
    for made in (printable(said), quotable(said), first_sentence(said)):
        assert made == "a\ufffd[31mb"
        made.encode()
    assert describe_error(ValueError(said)) == "ValueError: a\ufffd[31mb"


@pytest.mark.parametrize("text", NORMAL)
def test_normal_text_is_kept(text: str) -> None:
    assert printable(text) == quotable(text) == first_sentence(text) == text


def test_every_break_of_a_line_becomes_a_space() -> None:
    assert quotable("a\r\nb\vc\x85d\u2028e\tf\xa0g\u3000h") == "a b c d e f g h"


def test_the_gist_is_the_first_sentence_without_the_secret() -> None:
    assert first_sentence("Key s3cret-key is bad. Ask again.", ("s3cret-key",)) == "Key *** is bad"
    assert first_sentence("") == ""
    assert first_sentence("x" * 300) == "x" * 199 + "…"


@pytest.mark.parametrize(
    ("interval", "kind", "expected"),
    [
        ((0.12, 0.31), "f", "0.12 to 0.31"),
        ((0.4996, 0.5004), "f", "0.4996 to 0.5004"),
        ((31.991, 32.002), "g", "31.99 to 32"),
        ((31.9991, 31.9996), "g", "31.999 to 32"),
        ((1.0, 1.0), "f", "1.00 to 1.00"),
    ],
)
def test_an_interval_has_enough_digits_to_have_two_ends(
    interval: tuple[float, float], kind: str, expected: str
) -> None:
    assert interval_text(interval, kind) == expected
