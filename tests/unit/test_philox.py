"""The generator against Random123's known answers, and its numbering of frames."""

import json

import numpy as np
import pytest
from conftest import GOLDEN

from qwentts.philox import UniformStream, philox4x32, uniforms

TABLE = json.loads((GOLDEN / "philox.json").read_text())


@pytest.mark.parametrize("row", TABLE["philox4x32_10"])
def test_philox_equals_known_answers(row):
    key = (row["key"] & 0xFFFFFFFF, row["key"] >> 32)
    assert philox4x32(np.array([row["counter"]], np.uint32), key)[0].tolist() == row["output"]


@pytest.mark.parametrize("row", TABLE["uniforms"])
def test_uniform_equals_recorded(row):
    assert uniforms(row["seed"], row["n"], 1)[0] == np.float32(row["u"])


def test_uniforms_do_not_depend_on_the_block():
    alone = [uniforms(7, n, 1)[0] for n in range(90, 110)]
    assert uniforms(7, 90, 20).tolist() == alone


@pytest.mark.parametrize("n_groups", [5, 16])
def test_stream_frame_f_uses_subsequences_from_g_f(n_groups):
    stream = UniformStream(99, n_groups)
    for frame in (0, 1, 63, 64, 5, 200):
        assert stream.frame(frame).tolist() == uniforms(99, frame * n_groups, n_groups).tolist()


def test_uniforms_lie_in_the_half_open_interval():
    u = uniforms(3, 0, 200_000)
    assert u.dtype == np.float32 and u.min() > 0 and u.max() <= 1
    assert abs(u.mean() - 0.5) < 0.005 and abs(u.var() - 1 / 12) < 0.002
