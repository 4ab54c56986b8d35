"""The sampling chain against recorded distributions of the official processors, and the rules of a draw."""

import numpy as np
import pytest
from conftest import golden_arrays

from qwentts._lib import ffi, last_error, lib
from qwentts.errors import GenerateError, ParameterError
from qwentts.sampling import HIGHEST, LOWEST, Codebook0, RepetitionGuard, Settings, distribution, draw, exponential, warp

SUPPRESSED = 1024


@pytest.fixture(scope="module")
def table():
    return golden_arrays("sampler.npz")


def _talker_row(table, i):
    """Full-vocabulary logits and the processor in the state of row i, with the ids of the recorded columns."""
    logits, end = table["talker/logits"][i], int(table["talker/end_id"])
    n_codes = logits.size - 1
    columns = np.array([*range(n_codes), end])
    row = np.full(n_codes + SUPPRESSED, 30, np.float32)
    row[columns] = logits
    processor = Codebook0(row.size, end, penalty=float(table["talker/settings"][i][3]))
    for token in np.flatnonzero(table["talker/seen"][i]):
        processor.accept(int(token))
    processor.n_drawn = int(table["talker/said"][i])
    return row, processor, columns


def _rows(table, kind):
    """(scores, settings, columns, recorded index) of every row of a table."""
    for i, (temperature, top_k, top_p, _) in enumerate(table[f"{kind}/settings"]):
        settings = Settings(False, float(temperature), int(top_k), float(top_p))
        if kind == "talker":
            row, processor, columns = _talker_row(table, i)
            yield processor.process(row), settings, columns, i
        else:
            row = table["predictor/logits"][i]
            yield row, settings, np.arange(row.size), i


@pytest.mark.parametrize("kind", ["talker", "predictor"])
def test_kept_set_and_probabilities_equal_the_official_processors(table, kind):
    worst, n, n_swapped = 0.0, 0, 0
    for scores, settings, columns, i in _rows(table, kind):
        got = distribution(scores, settings)
        assert not np.delete(got, columns).any(), f"row {i}: a suppressed token has probability"
        got, want, kept = got[columns], table[f"{kind}/probs"][i], table[f"{kind}/kept"][i]
        differs = np.flatnonzero((got > 0) != kept)
        if differs.size:
            # which of several equal scores top-p drops is open: torch.sort is not stable beyond 16 values
            assert settings.top_p < 1 and len(set(scores[columns][differs])) == 1 and (got > 0).sum() == kept.sum(), f"row {i} {settings}"
            got, want, n_swapped = np.sort(got), np.sort(want), n_swapped + 1
        worst, n = max(worst, float(np.abs(got - want).max())), n + 1
    assert n == 700 and worst <= 1e-6
    assert n_swapped <= 25, "only rows with many ties, a fifth of the table, may differ so"


@pytest.mark.parametrize("kind", ["talker", "predictor"])
def test_greedy_takes_the_best_processed_score(table, kind):
    for scores, _, columns, i in _rows(table, kind):
        assert draw(scores, Settings(greedy=True), np.float32(0.5)) == columns[table[f"{kind}/greedy"][i]], f"row {i}"


def test_draws_follow_the_distribution(table):
    grid = (np.arange(20_000, dtype=np.float32) + np.float32(0.5)) / np.float32(20_000)
    for scores, settings, _, i in list(_rows(table, "talker"))[:40:8]:
        want = distribution(scores, settings)
        got = np.bincount([draw(scores, settings, u) for u in grid], minlength=want.size) / grid.size
        assert np.abs(got - want).max() < 2e-4, f"row {i}"


def test_draw_is_the_first_index_that_reaches_u_times_total():
    scores = np.log(np.array([1, 2, 0, 4, 1], np.float32), where=[True, True, False, True, True], out=np.full(5, -np.inf, np.float32))
    settings = Settings(temperature=1.0, top_k=0)
    weights = np.exp(scores - scores.max())
    total = np.cumsum(weights)[-1]
    for u in np.linspace(1e-7, 1, 997, dtype=np.float32):
        assert draw(scores, settings, u) == int(np.argmax(np.cumsum(weights) >= u * total))
    assert draw(scores, settings, np.float32(1.0)) == 4 and draw(scores, settings, np.float32(2.0**-33)) == 0


def test_end_token_ranked_behind_top_k_is_never_drawn():
    """Needs row 6: the end token passes through top-k like any other token."""
    scores = np.linspace(5, 0, 60, dtype=np.float32)
    end = 50  # ranked 51st
    settings = Settings(temperature=1.0, top_k=50)
    assert distribution(scores, settings)[end] == 0
    assert distribution(scores, Settings(temperature=1.0, top_k=51))[end] > 0


def test_ties_at_the_kth_value_are_kept():
    kept, _ = warp(np.array([3, 1, 1, 1, 0], np.float32), Settings(temperature=1.0, top_k=2))
    assert kept.tolist() == [0, 1, 2, 3]


def test_top_p_keeps_at_least_one():
    kept, _ = warp(np.array([0, 5, 1], np.float32), Settings(temperature=1.0, top_k=0, top_p=1e-9))
    assert kept.tolist() == [1]


def test_end_token_is_forbidden_for_two_tokens_and_reserved_ids_always():
    processor = Codebook0(3072, 2150)
    logits = np.zeros(3072, np.float32)
    for n_drawn in range(4):
        scores = processor.process(logits)
        assert np.isneginf(scores[2150]) == (n_drawn < 2)
        assert np.isneginf(np.delete(scores[2048:], 2150 - 2048)).all() and np.isfinite(scores[:2048]).all()
        processor.accept(n_drawn)
    assert not logits.any(), "the caller's logits were changed"


def test_penalty_counts_a_token_once_and_follows_the_sign():
    processor = Codebook0(1100, 90, penalty=1.5)
    for token in (3, 3, 4):
        processor.accept(token)
    logits = np.zeros(1100, np.float32)
    logits[[3, 4, 5]] = 3, -3, 3
    assert processor.process(logits)[[3, 4, 5]].tolist() == [2, -4.5, 3]


def test_logits_that_are_no_numbers_are_an_error():
    for settings in (Settings(), Settings(greedy=True), Settings(top_p=0.5), Settings(top_k=0)):
        with pytest.raises(GenerateError, match="not a number"):
            draw(np.full(64, np.nan, np.float32), settings, np.float32(0.5))
        one = np.zeros(64, np.float32)
        one[5] = np.nan
        with pytest.raises(GenerateError, match="not a number"):
            draw(one, settings, np.float32(0.5))


@pytest.mark.parametrize(
    ("bad", "name"),
    [
        (Settings(temperature=float("nan")), "temperature"), (Settings(temperature=-1), "temperature"),
        (Settings(temperature=float("inf")), "temperature"), (Settings(top_k=-1), "top_k"), (Settings(top_p=0), "top_p"),
        (Settings(top_p=1.5), "top_p"), (Settings(top_p=float("nan")), "top_p"),
    ],
)  # fmt: skip
def test_settings_out_of_range_name_the_field(bad, name):
    with pytest.raises(ParameterError, match=f"sub_{name} is"):
        bad.check("sub_")


def test_extreme_settings_in_range_stay_finite():
    """Errors on warnings: a division by zero, an overflow."""
    logits = np.linspace(-1e4, 1e4, 3000).astype(np.float32)
    for value in (LOWEST, HIGHEST):
        codebook0 = Codebook0(3000, 2150, penalty=value)
        codebook0.accept(7)
        codebook0.accept(1500)
        with np.errstate(all="raise", under="ignore"):
            probabilities = distribution(codebook0.process(logits), Settings(temperature=value))
        assert np.isfinite(probabilities).all() and abs(probabilities.sum() - 1) < 1e-5


def test_guard_fires_when_its_window_is_one_cycle():
    for period in (1, 2, 4):
        guard = RepetitionGuard(12.5)
        fired = [guard.repeats(i % period) for i in range(60)]
        assert fired.index(True) == guard.window_frames - 1 == 49, f"period {period}"
    guard = RepetitionGuard(12.5)
    assert not any(guard.repeats(i % 5) for i in range(400))
    assert not any(guard.repeats(7 if i % 49 else i) for i in range(400))


def c_draw(scores, settings, uniform):
    """The token that the library draws."""
    sampling = ffi.new("struct qt_sampling *", [settings.greedy, settings.top_k, settings.temperature, settings.top_p])
    token = ffi.new("int32_t *")
    assert lib.qt_draw(ffi.from_buffer("float[]", scores), scores.size, sampling, uniform, token) == 0, last_error()
    return token[0]


def random_rows(rng, n_rows):
    """Rows of every kind: smooth, tied, with -inf, of huge and tiny spread, of sizes from 1."""
    for i in range(n_rows):
        n = int(rng.choice([1, 2, 3, 17, 64, 700, 2048]))
        row = rng.standard_normal(n) * rng.choice([1e-3, 1, 4, 40, 1e4])
        if i % 3 == 1:
            row = np.round(row * 2) / 2  # ties, also at the k-th place and of -0 with 0
        if i % 5 == 2:
            row[rng.random(n) < 0.5] = -np.inf
            row[rng.integers(n)] = rng.standard_normal()
        yield row.astype(np.float32)


def test_the_library_draws_what_numpy_draws():
    """Same seed, same bytes: csrc/sampling.c and draw() round alike at every step."""
    rng = np.random.default_rng(20)
    n_tokens, n_drawn = set(), 0
    for row in random_rows(rng, 3000):
        settings = Settings(
            greedy=bool(rng.random() < 0.1),
            temperature=float(rng.choice([LOWEST, 0.1, 0.5, 0.9, 1.0, 1.3, 20.0, HIGHEST])),
            top_k=int(rng.choice([0, 1, 2, 50, max(row.size - 1, 0), row.size, row.size + 7])),
            top_p=float(rng.choice([1e-9, 0.1, 0.5, 0.95, 1 - 2**-24, 1.0, 1.0, 1.0])),
        )
        edges = [np.float32(2.0**-33), np.float32(1.0)]
        for uniform in [*edges, *(np.float32(1) - rng.random(4, dtype=np.float32))]:
            want = draw(row, settings, uniform)
            assert c_draw(row, settings, uniform) == want, (settings, uniform, row.size)
            n_tokens.add(want)
            n_drawn += 1
    assert n_drawn == 18_000 and len(n_tokens) > 1000


def test_draws_at_the_boundaries_between_tokens():
    """Uniforms next to a cumulative weight, where a difference in its last bit picks the other token."""
    rng = np.random.default_rng(21)
    for top_p in (1.0, 0.8):
        settings = Settings(temperature=0.9, top_k=50, top_p=top_p)
        for row in (rng.standard_normal((150, 2048)) * 3).astype(np.float32):
            _, scores = warp(row, settings)
            cumulative = np.cumsum(exponential(scores - scores.max()).astype(np.float32))
            for edge in (cumulative / cumulative[-1])[:-1:5]:
                for uniform in (np.nextafter(edge, np.float32(0)), edge, np.nextafter(edge, np.float32(1))):
                    assert c_draw(row, settings, uniform) == draw(row, settings, uniform)


def test_the_exponential_is_within_an_ulp_of_the_true_one():
    x = -np.concatenate([np.random.default_rng(22).random(20_000) * 100, np.linspace(0, 700, 5001), [0.0, np.inf]])
    with np.errstate(all="raise"):
        got = exponential(x)
    want = np.exp(np.maximum(x, -700).astype(np.longdouble))
    assert got[-2] == 1 and np.abs((got - want) / want).max() < 2.3e-16
    assert got[-1].astype(np.float32) == 0


def test_the_library_refuses_logits_that_are_no_numbers():
    sampling, token = ffi.new("struct qt_sampling *", [False, 0, 1.0, 1.0]), ffi.new("int32_t *")
    for bad in (np.nan, np.inf, -np.inf):
        row = np.full(5, -np.inf, np.float32)
        row[3] = bad
        assert lib.qt_draw(ffi.from_buffer("float[]", row), 5, sampling, 0.5, token) == lib.QT_STATUS_GENERATE_FAILED
        assert f"the highest logit is {bad}, not a number" in last_error()
