"""Hostile texts: no reader of results takes long over them, and damaged ones give an error and nothing else."""

import json
import random
import time

import pytest

from skewscope.adapters.results.result_format import read_results, result_formats
from skewscope.adapters.results.result_judgement import compare_results, judge_results
from skewscope.kb.problems import InputError
from tests.support.benchmark_texts import bandwidth_table, exported_object, serving_object, serving_table

PARTS = ("\n", " ", "\t", "=", "1 ", "size count ", "| ", "version: 0.1 ", "Rank 1 ", '"benchmarks": ', "Metric,")


@pytest.mark.parametrize("part", PARTS)
def test_no_repeated_text_takes_long(part):
    text = (part * 70_000)[:65_536]
    for each in result_formats():
        begin = time.process_time()
        each.recognise(text)
        assert time.process_time() - begin < 2.0, each.tool


def test_damaged_results_are_errors_or_results_and_nothing_else():
    chance = random.Random(7)
    texts = [serving_table(80, 16), bandwidth_table(("a1", "b1"), 460), exported_object(80, 16, 32, 3.9)]
    texts.append(json.dumps(serving_object(80, 16)))
    whole = read_results(texts[0].encode(), "x")
    for _ in range(300):
        text = chance.choice(texts)
        place = chance.randrange(len(text))
        text = text[:place] + chance.choice(("", "-", "1e999", "nan", "{", "\x00", "9" * 30)) + text[place + 3 :]
        try:
            results = read_results(text.encode(), "x")
        except InputError:
            continue
        judge_results(results)
        compare_results(whole, results)
