"""The frame loop with a scripted model: how speech ends, what is fed back, what is cancelled."""

import threading
import time

import numpy as np
import pytest
from conftest import Facts, ScriptedStack

from qwentts.errors import Cancelled, GenerateError, ParameterError
from qwentts.generate import FrameLoop, Limits, derived_cap_frames, frame_limit, interruptible
from qwentts.philox import uniforms
from qwentts.settings import choose

EOS = 2150


def run(stack, *, max_frames=2048, guard=True, cancel=None, overlay=(), seed=1, **options):
    rows = np.zeros((3, 4), np.float32)
    overlay = np.array([[v] * 4 for v in overlay], np.float32).reshape(-1, 4)
    loop = FrameLoop(
        stack, (rows, overlay, np.full(4, -1, np.float32)), eos=EOS, chosen=choose(options, {}, greedy=options.pop("greedy", None)),
        seed=seed, limits=Limits(max_frames, guard, cancel),
    )  # fmt: skip
    return np.array(list(loop)), loop.finish_reason, loop


def test_a_model_that_always_says_302_stops_after_the_guard_window():
    """Needs row 2."""
    codes, reason, _ = run(ScriptedStack(302), repetition_penalty=1.0)
    assert reason == "repetition" and len(codes) == 50  # 4 s at 12.5 frames a second
    assert (codes == [302, 1, 2, 3, 4]).all()


def test_the_guard_can_be_switched_off():
    codes, reason, _ = run(ScriptedStack(302), max_frames=200, guard=False, repetition_penalty=1.0)
    assert reason == "length" and len(codes) == 200


def test_the_end_token_ends_before_its_frame():
    stack = ScriptedStack([5, 6, 7, EOS])
    codes, reason, _ = run(stack)
    assert reason == "stop" and codes[:, 0].tolist() == [5, 6, 7] and stack.n_steps == 4


def test_the_end_token_cannot_come_in_the_first_two_frames():
    codes, reason, _ = run(ScriptedStack([EOS]), greedy=True)
    assert reason == "stop" and len(codes) == 2


def test_the_frame_limit_is_exact_and_no_step_is_wasted():
    stack = ScriptedStack(list(range(100)))
    codes, reason, _ = run(stack, max_frames=7)
    assert reason == "length" and len(codes) == 7 and stack.n_steps == 7


def test_codes_and_overlay_rows_are_fed_back_in_order_then_the_pad_row():
    stack = ScriptedStack([9, 8, 7, 6, 5, EOS])
    run(stack, overlay=[10, 20, 30])
    assert stack.overlays == [10, 20, 30, -1, -1]
    assert [codes[0] for codes in stack.stepped] == [9, 8, 7, 6, 5]
    assert all(codes[1:] == [1, 2, 3, 4] for codes in stack.stepped)


def test_one_code_group_needs_no_predictor():
    codes, reason, _ = run(ScriptedStack([3, 4, 5, EOS], n_groups=1))
    assert codes.tolist() == [[3], [4], [5]] and reason == "stop"


def test_draws_depend_on_the_seed_and_replay():
    class Flat(ScriptedStack):
        def _answer(self, logits):
            logits[:] = 0
            self.n_steps += 1

        def _predict(self, group):
            return np.zeros(32, np.float32)

    first, again, other = (run(Flat(0), max_frames=20, seed=s)[0] for s in (5, 5, 6))
    assert (first == again).all() and (first != other).any(axis=0).all()


def test_codebook_g_of_frame_f_is_drawn_with_its_own_uniform():
    class Flat(ScriptedStack):
        def _predict(self, group):
            return np.zeros(32, np.float32)

    codes, _, _ = run(Flat(list(range(9))), max_frames=9, seed=11, subtalker_top_k=0)
    n_values = 32  # equal weights: the first index whose cumulative weight reaches u * 32
    want = np.ceil(uniforms(11, 0, 9 * 5).reshape(9, 5) * np.float32(n_values)) - 1
    assert (codes[:, 1:] == want[:, 1:]).all()


def test_a_cancel_event_ends_within_a_frame():
    cancel, stack = threading.Event(), ScriptedStack(list(range(100)))
    loop = FrameLoop(
        stack, (np.zeros((1, 4), np.float32), np.zeros((0, 4), np.float32), np.zeros(4, np.float32)), eos=EOS, chosen=choose({}, {}),
        seed=1, limits=Limits(100, True, cancel),
    )  # fmt: skip
    codes = []
    for frame in loop:
        codes.append(frame)
        if len(codes) == 3:
            cancel.set()
    assert len(codes) == 3 and loop.finish_reason == "cancelled" and stack.n_steps == 3


def test_times_are_kept_for_every_part():
    _, _, loop = run(ScriptedStack([1, 2, 3, EOS]))
    assert set(loop.timings) == {"prefill", "talker", "predictor", "sampling"} and all(v > 0 for v in loop.timings.values())


class Slow:
    """A library call that only a cancel ends."""

    def __init__(self):
        self.cancelled = threading.Event()

    def cancel(self):
        self.cancelled.set()

    def call(self):
        if not self.cancelled.wait(20):
            return "finished"
        raise Cancelled("by request")


def test_interruptible_forwards_an_event_to_the_running_call():
    slow, event = Slow(), threading.Event()
    threading.Timer(0.1, event.set).start()
    start = time.perf_counter()
    with pytest.raises(Cancelled):
        interruptible(slow, slow.call, event)
    assert time.perf_counter() - start < 2


def test_interruptible_forwards_ctrl_c():
    import _thread

    slow = Slow()
    threading.Timer(0.1, _thread.interrupt_main).start()
    with pytest.raises(KeyboardInterrupt):
        interruptible(slow, slow.call, None)
    assert slow.cancelled.is_set()


def test_interruptible_waits_for_the_call_however_often_ctrl_c_comes():
    import _thread

    class Stubborn(Slow):
        ended = False

        def call(self):
            self.cancelled.wait(20)
            threading.Timer(0.05, _thread.interrupt_main).start()
            time.sleep(0.3)
            self.ended = True

    slow = Stubborn()
    threading.Timer(0.1, _thread.interrupt_main).start()
    with pytest.raises(KeyboardInterrupt):
        interruptible(slow, slow.call, None)
    assert slow.ended


def test_interruptible_does_not_wait_for_a_worker_that_never_began(monkeypatch):
    def start(_thread):
        raise KeyboardInterrupt

    monkeypatch.setattr(threading.Thread, "start", start)
    with pytest.raises(KeyboardInterrupt):
        interruptible(Slow(), lambda: 7, None)


def test_interruptible_returns_values_and_raises_errors():
    def broken():
        raise GenerateError("no")

    assert interruptible(Slow(), lambda: 7, None) == 7
    with pytest.raises(GenerateError, match="no"):
        interruptible(Slow(), broken, None)


FACTS = Facts(context_length=1000, n_code_groups=5, codec_vocab_size=3072, code_vocab_size=32)


@pytest.mark.parametrize("n_tokens", [1, 2, 10, 100])
def test_the_derived_cap_is_never_under_two_seconds_and_grows_with_the_text(n_tokens):
    cap = derived_cap_frames(n_tokens, 12.5)
    assert cap >= 25 and cap == -(-(25 + 10 * n_tokens) // 1)


def test_the_callers_limit_always_wins_over_the_derived_cap():
    """Needs row 7."""
    assert frame_limit(120, 8192, 3, 20, FACTS) == 120
    assert frame_limit(None, 8192, 3, 20, FACTS) == 55
    assert frame_limit(None, 40, 3, 20, FACTS) == 40
    assert frame_limit(5000, 40, 3, 20, FACTS) == 1000 - 20 + 1


def test_two_tokens_cannot_last_five_seconds():
    """Needs row 1."""
    assert derived_cap_frames(2, 12.5) < 5 * 12.5


def test_a_prompt_beyond_the_context_is_refused():
    with pytest.raises(ParameterError, match="needs 1001 positions .* has 1000"):
        frame_limit(None, 8192, 990, 1001, FACTS)


@pytest.mark.parametrize("bad", [0, -1, 1.5, True, "9"])
def test_limits_out_of_range_name_the_field(bad):
    with pytest.raises(ParameterError, match="max_new_tokens is"):
        frame_limit(bad, 8192, 3, 20, FACTS)
