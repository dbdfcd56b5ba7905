"""Lines with phrases are found by pieces of them, the same ones as by whole expressions."""

import random

import pytest

from skewscope.adapters.formats.line_filter import MIN_LINES, PhraseFilter, select_lines
from skewscope.kb.known_events import known_events
from skewscope.kb.line_patterns import compile_pattern, split_words


def texts(count, seed=1):
    """Returns lines of words of messages, some of them whole, among others."""
    rng = random.Random(seed)
    phrases = known_events().phrases
    for _ in range(count):
        words = list(rng.choice(phrases)) if rng.random() < 0.5 else ["INFO step", str(rng.random())]
        yield f"{rng.random()} {rng.choice((' ', '  ', '	', '')).join(words)} {'timeout' * rng.randint(0, 1)}"


@pytest.mark.parametrize("count", [MIN_LINES - 1, 4 * MIN_LINES])
def test_pieces_of_phrases_find_what_whole_expressions_find(count):
    known, lines = known_events(), list(texts(count))
    found = PhraseFilter(known.phrases, known.some_words)
    assert found.select(lines) == select_lines(known.some_words, lines)
    # What is rare was learned from other lines.
    others = list(texts(count, 2))
    assert found.select(others) == select_lines(known.some_words, others)


def test_a_phrase_that_is_everywhere_is_found():
    lines = ["NCCL WARN lost"] * MIN_LINES + ["nothing"]
    assert PhraseFilter([("NCCL", "WARN")], [r"NCCL[ \t]+WARN"]).select(lines) == list(range(MIN_LINES))


@pytest.mark.parametrize("text", ["a (b) c.d", "x|y", "tabs\\here", "end [0]"])
def test_words_of_a_pattern_are_its_literal_texts(text):
    assert split_words(compile_pattern(text).words) == tuple(text.split(" "))
