"""Whose value counts: the caller's, the file's, the documented default."""

import pytest

from qwentts.errors import ParameterError
from qwentts.sampling import Settings
from qwentts.settings import choose, choose_seed

FILE = {"do_sample": False, "temperature": 0.6, "top_k": 20, "subtalker_do_sample": False, "subtalker_top_k": 7, "repetition_penalty": 1.0}


def test_defaults_without_a_file():
    chosen = choose({}, {})
    assert chosen.talker == chosen.predictor == Settings(False, 0.9, 50, 1.0)
    assert chosen.repetition_penalty == 1.05 and chosen.warnings == ()


def test_the_file_comes_before_the_defaults_and_the_caller_before_the_file():
    chosen = choose({"top_p": 0.8, "temperature": None, "top_k": 30}, FILE)
    assert chosen.talker == Settings(False, 0.6, 30, 0.8)  # a sampling option turns this stack's sampling on
    assert chosen.predictor == Settings(True, 0.9, 7, 1.0)
    assert chosen.repetition_penalty == 1.0


def test_greedy_is_the_files_unless_given():
    assert choose({}, FILE).talker.greedy and not choose({}, {}).talker.greedy
    assert not choose({}, FILE, greedy=False).predictor.greedy
    assert choose({"temperature": 0.5}, FILE, greedy=True).talker.greedy


def test_temperature_zero_is_greedy_with_a_warning_and_keeps_the_penalty():
    chosen = choose({"temperature": 0}, {})
    assert chosen.talker.greedy and not chosen.predictor.greedy and chosen.repetition_penalty == 1.05
    assert "seed" in chosen.warnings[0]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("temperature", float("nan")), ("temperature", -0.1), ("temperature", "hot"), ("temperature", True), ("top_k", -1), ("top_k", 1.5),
        ("top_p", 0), ("top_p", 1.01), ("top_p", float("nan")), ("repetition_penalty", 0), ("repetition_penalty", float("nan")),
        ("temperature", 1e-7), ("subtalker_temperature", 1e39), ("repetition_penalty", 1e-320), ("repetition_penalty", 1e39),
        ("subtalker_temperature", float("inf")), ("subtalker_top_k", -3), ("subtalker_top_p", 2),
    ],
)  # fmt: skip
def test_values_out_of_range_name_the_field(name, value):
    with pytest.raises(ParameterError, match=f"^{name} is .*valid are"):
        choose({name: value}, {})


def test_seeds():
    assert choose_seed(0) == 0 and choose_seed((1 << 64) - 1) == (1 << 64) - 1
    drawn = {choose_seed(s) for s in (None, -1) for _ in range(8)}
    assert len(drawn) == 16 and all(0 <= s < 1 << 53 for s in drawn)
    for bad in (-2, 1 << 64, 1.0, "7", True):
        with pytest.raises(ParameterError, match="seed is"):
            choose_seed(bad)
