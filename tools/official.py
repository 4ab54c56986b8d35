"""The official qwen-tts package as a reference: import it without torchaudio, load a checkpoint, run it greedily in F32.

Needs the reference environment (torch, transformers 4.57.3, qwen-tts 0.1.1). Attention is eager and everything is
float32 on the CPU. `capture` collects what the talker and the code predictor compute, `decode_once` runs the codec
decoder over all frames at once (the official chunked decode keeps too little left context for its own window).
"""

from __future__ import annotations

import sys
import types
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import transformers  # before the stubs, which it would take for the real package

for _name in ("torchaudio", "torchaudio.compliance", "torchaudio.compliance.kaldi"):
    sys.modules.setdefault(_name, types.ModuleType(_name))  # only the 25 Hz path needs them
import torch  # noqa: E402
from qwen_tts import Qwen3TTSModel  # noqa: E402

transformers.logging.set_verbosity_error()
GREEDY = dict(do_sample=False, subtalker_dosample=False)


@dataclass
class Trace:
    """What one generation computed; arrays are float32 [rows, width]."""

    prompt: np.ndarray | None = None  # rows given to the talker
    overlay: np.ndarray | None = None  # the rows added to later steps
    pad: np.ndarray | None = None  # the row added when they have run out
    codes: np.ndarray | None = None  # int32 [frames, groups]
    steps: list[dict[str, np.ndarray]] = field(default_factory=list)  # prefill, then one a frame
    frames: list[dict[str, np.ndarray]] = field(default_factory=list)  # predictor logits of each frame
    margins: list[float] = field(default_factory=list)  # best minus second best logit of every choice
    stopped: bool = False  # the end token came before the limit


def load(folder: Path) -> Qwen3TTSModel:
    """Loads a checkpoint folder and checks that its tensors are exactly the model's."""
    model = Qwen3TTSModel.from_pretrained(str(folder), device_map="cpu", dtype=torch.float32, attn_implementation="eager")
    _check_tensors(model.model, folder / "model.safetensors")
    _check_tensors(model.model.speech_tokenizer.model, folder / "speech_tokenizer" / "model.safetensors")
    decoder = model.model.speech_tokenizer.model.decoder
    decoder.pre_transformer.config._attn_implementation = "eager"
    model.model.speech_tokenizer.model.eval()
    return model


def _check_tensors(module: torch.nn.Module, path: Path) -> None:
    from safetensors import safe_open

    with safe_open(path, "pt") as file:
        stored = {name: tuple(file.get_slice(name).get_shape()) for name in file.keys()}  # noqa: SIM118
    own = {name: tuple(value.shape) for name, value in module.state_dict().items()}
    assert stored == own, sorted(set(stored.items()) ^ set(own.items()))[:10]


def generate(model: Qwen3TTSModel, text: str, *, language: str = "auto", speaker: str | None = None,
             instruct: str | None = None, non_streaming: bool = True, frames: int = 64, **options: Any) -> Trace:  # fmt: skip
    """One greedy generation of at most `frames` frames; `options` override the checkpoint's generation settings."""
    ids = model._tokenize_texts([model._build_assistant_text(text)])
    instruct_ids = [model._tokenize_texts([model._build_instruct_text(instruct)])[0]] if instruct else None
    settings = model._merge_generate_kwargs(**GREEDY, **options)
    settings["max_new_tokens"] = frames + 1  # a frame's codes are expanded in the step after its first code is chosen
    trace = Trace()
    with torch.no_grad(), _capture(model.model.talker, trace):
        codes, _ = model.model.generate(input_ids=ids, instruct_ids=instruct_ids, languages=[language], speakers=[speaker],
                                        non_streaming_mode=non_streaming, **settings)  # fmt: skip
    codes = codes[0].numpy().astype(np.int32)
    trace.stopped = len(codes) < frames
    trace.codes = codes[:frames]
    return trace


def decode_once(model: Qwen3TTSModel, codes: np.ndarray) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """Decodes int32 codes [frames, groups] in one pass: (samples, stages as float32 [time, channels])."""
    decoder = model.model.speech_tokenizer.model.decoder
    stages: dict[str, np.ndarray] = {}
    hooks = []

    def keep(name: str, module: torch.nn.Module, *, channels_first: bool = True) -> None:
        def hook(_module: torch.nn.Module, _inputs: Any, output: Any) -> None:
            value = output.last_hidden_state if hasattr(output, "last_hidden_state") else output
            stages[name] = (value[0].T if channels_first else value[0]).detach().numpy().copy()

        hooks.append(module.register_forward_hook(hook))

    keep("codec.pre_conv", decoder.pre_conv)
    keep("codec.pre_tfm", decoder.pre_transformer, channels_first=False)
    for i, blocks in enumerate(decoder.upsample):
        keep(f"codec.upsample.{i}", blocks[-1])
    n = len(decoder.decoder)
    for i in [*range(n - 2), n - 1]:  # the snake before the last convolution has no stage of its own
        keep(f"codec.dac.{i if i < n - 2 else n - 2}", decoder.decoder[i])
    tensor = torch.from_numpy(codes.astype(np.int64).T[None].copy())
    with torch.no_grad():
        stages["codec.rvq"] = decoder.quantizer.decode(tensor)[0].T.numpy().copy()
        samples = decoder(tensor)[0, 0].numpy().copy()
    for hook in hooks:
        hook.remove()
    stages["codec.audio"] = samples[:, None]
    return samples, {name: np.ascontiguousarray(value, np.float32) for name, value in stages.items()}


@contextmanager
def _capture(talker: Any, trace: Trace) -> Iterator[None]:
    """Collects the talker's steps and the predictor's logits while a generation runs."""
    hooks = []
    step: dict[str, np.ndarray] = {}

    def rows(value: torch.Tensor) -> np.ndarray:
        return value[0].detach().numpy().astype(np.float32).copy()

    def before_model(_module: Any, _args: Any, kwargs: Any) -> None:
        step.clear()
        step["talker.embd"] = rows(kwargs["inputs_embeds"])

    def layer(i: int) -> Any:
        return lambda _module, _inputs, output: step.__setitem__(f"talker.blk.{i}", rows(output[0]))

    def after_head(_module: Any, _inputs: Any, output: torch.Tensor) -> None:
        step["talker.logits"] = rows(output)[-1:]
        trace.steps.append(dict(step))

    def before_talker(_module: Any, _args: Any, kwargs: Any) -> None:
        if kwargs.get("inputs_embeds") is not None and kwargs["inputs_embeds"].shape[1] > 1:
            trace.prompt = rows(kwargs["inputs_embeds"])
            trace.overlay = rows(kwargs["trailing_text_hidden"])
            trace.pad = rows(kwargs["tts_pad_embed"])

    def after_predictor(_module: Any, _inputs: Any, output: Any) -> None:
        group = output.generation_steps
        if group == 1:
            trace.frames.append({})
        logits = rows(output.logits)[-1:]
        trace.frames[-1][f"predictor.{group}.logits"] = logits
        top = np.sort(logits[0])[-2:]
        trace.margins.append(float(top[1] - top[0]))

    hooks.append(talker.register_forward_pre_hook(before_talker, with_kwargs=True))
    hooks.append(talker.model.register_forward_pre_hook(before_model, with_kwargs=True))
    for i, module in enumerate(talker.model.layers):
        hooks.append(module.register_forward_hook(layer(i)))
    hooks.append(talker.model.norm.register_forward_hook(lambda _m, _i, out: step.__setitem__("talker.norm", rows(out))))
    hooks.append(talker.codec_head.register_forward_hook(after_head))
    hooks.append(talker.code_predictor.register_forward_hook(after_predictor))

    def margin(_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        top = torch.topk(scores[0], 2).values
        trace.margins.append(float(top[0] - top[1]))
        return scores

    inner = talker.generate
    talker.generate = lambda **kwargs: inner(logits_processor=transformers.LogitsProcessorList([margin]), **kwargs)
    try:
        yield
    finally:
        del talker.generate
        for hook in hooks:
            hook.remove()
