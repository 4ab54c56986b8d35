"""Which type each tensor gets: the library's one table, on the names and shapes of the published files."""

from collections import Counter

import pytest
from gguf import GGMLQuantizationType as T

from qwentts._lib import ffi, last_error, lib

N_LAYERS = 28
DECIDING = {0, 1, 2, 5, 8, 11, 14, 17, 20, 23, 24, 25, 26, 27}  # of 28: the first and the last eighth, every third in between
VARIANTS = ["F32", "F16", "BF16", "Q8_0", "Q6_K", "Q5_K_M", "Q4_K_M", "Q4_K_S"]
BLOCKS = VARIANTS[3:]


def choice(variant: str, name: str, ne: tuple[int, ...], *, predictor: str | None = None, n_layers: int = N_LAYERS) -> tuple[T, str]:
    """Type and reason of one tensor, ne with the fastest axis first."""
    kind, reason = ffi.new("int32_t *"), ffi.new("const char **")
    asked = ffi.NULL if predictor is None else ffi.new("char[]", predictor.encode())
    status = lib.qt_policy_type(variant.encode(), asked, name.encode(), len(ne), list(ne), n_layers, kind, reason)
    if status != 0:
        raise ValueError(last_error())
    return T(kind[0]), ffi.string(reason[0]).decode()


def kinds(variant: str, name: str, ne: tuple[int, ...], **more: object) -> T:
    return choice(variant, name, ne, **more)[0]  # type: ignore[arg-type]


def test_variants_are_listed() -> None:
    names = []
    while (name := lib.qt_policy_variant(len(names))) != ffi.NULL:
        names.append(ffi.string(name).decode())
    assert names == VARIANTS


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize(
    ("name", "ne", "why"),
    [
        ("talker.blk.3.attn_norm.weight", (1024,), "vector"),
        ("talker.text_proj.fc1.bias", (2048,), "vector"),
        ("tok_dec.dec.1.snake.alpha", (1536,), "vector"),
        ("tok_dec.pre_tfm.blk.0.ffn_scale", (512,), "vector"),
        ("talker.output_norm.weight", (1024, 1, 1), "vector"),
        ("tok_dec.vq_rest.14.codebook", (256, 2048), "codebook"),
        ("tok_enc.vq_semantic.0.codebook", (256, 2048), "codebook"),
        ("tok_dec.vq_first.output_proj.weight", (1, 256, 512), "codebook projection"),
        ("tok_enc.vq_acoustic.input_proj.weight", (1, 512, 256), "codebook projection"),
        ("spk_enc.asp.conv.weight", (1, 128, 1536), "speaker encoder"),
        ("spk_enc.fc.weight", (1, 3072, 1024), "speaker encoder"),
    ],
)
def test_what_is_searched_or_read_raw_stays_f32(variant: str, name: str, ne: tuple[int, ...], why: str) -> None:
    assert choice(variant, name, ne, predictor="Q4_K") == (T.F32, why)
    assert ffi.string(lib.qt_policy_f32_reason(name.encode(), len(ne), list(ne))).decode() == why


@pytest.mark.parametrize(
    ("name", "ne"),
    [
        ("tok_dec.dec.1.res.0.conv1.weight", (7, 768, 768)),
        ("tok_dec.dec.1.conv_t.weight", (16, 768, 1536)),
        ("tok_dec.dec.1.res.0.conv2.weight", (1, 768, 768)),
        ("tok_dec.upsample.0.dwconv.weight", (7, 1, 1024)),
        ("tok_enc.downsample.weight", (4, 512, 512)),
        ("tok_enc.conv.0.weight", (256, 512, 512)),  # even where the taps would fill a block
    ],
)
def test_convolution_kernels_are_f16_where_matrices_are_blocks(name: str, ne: tuple[int, ...]) -> None:
    for variant in BLOCKS:
        assert choice(variant, name, ne) == (T.F16, "convolution kernel")
    for variant in ("F32", "F16", "BF16"):
        assert choice(variant, name, ne) == (T[variant], "matrix")
    assert lib.qt_policy_f32_reason(name.encode(), len(ne), list(ne)) == ffi.NULL


def test_rows_that_no_block_fits_are_f16() -> None:
    name = "talker.blk.0.ffn_up.weight"
    assert choice("Q8_0", name, (1000, 64)) == (T.F16, "row fits no block of 32")
    assert choice("Q4_K_M", name, (1000, 64)) == (T.F16, "row fits no block of 256")
    assert choice("Q8_0", name, (992, 64)) == (T.Q8_0, "matrix")
    assert choice("Q4_K_M", name, (992, 64)) == (T.F16, "row fits no block of 256")
    assert choice("Q4_K_M", "code_pred.blk.0.ffn_up.weight", (992, 64)) == (T.Q8_0, "predictor kept better")


@pytest.mark.parametrize(
    ("variant", "matrix"), [("Q5_K_M", T.Q5_K), ("Q4_K_M", T.Q4_K), ("Q4_K_S", T.Q4_K), ("Q6_K", T.Q6_K), ("Q8_0", T.Q8_0)]
)
def test_deciding_layers_of_the_mixes_get_more_bits(variant: str, matrix: T) -> None:
    better = T.Q6_K if variant.endswith("_M") else matrix
    for layer in range(N_LAYERS):
        want = (better, "deciding layer") if layer in DECIDING and better != matrix else (matrix, "matrix")
        assert choice(variant, f"talker.blk.{layer}.attn_v.weight", (2048, 1024)) == want
        assert choice(variant, f"talker.blk.{layer}.ffn_down.weight", (6144, 2048)) == want
        for other in ("attn_q", "attn_k", "attn_output", "ffn_up", "ffn_gate"):
            assert choice(variant, f"talker.blk.{layer}.{other}.weight", (2048, 2048)) == (matrix, "matrix")
    deciding_of_8 = {i for i in range(8) if kinds("Q4_K_M", f"tok_dec.pre_tfm.blk.{i}.attn_v.weight", (512, 1024), n_layers=8) == T.Q6_K}
    assert deciding_of_8 == {0, 3, 6, 7}


@pytest.mark.parametrize(
    ("variant", "embedding", "head"),
    [
        ("F16", T.F16, T.F16),
        ("Q8_0", T.Q8_0, T.Q8_0),
        ("Q6_K", T.Q6_K, T.Q6_K),
        ("Q5_K_M", T.Q6_K, T.Q6_K),
        ("Q4_K_M", T.Q6_K, T.Q6_K),
        ("Q4_K_S", T.Q4_K, T.Q6_K),
    ],
)
def test_embeddings_and_head(variant: str, embedding: T, head: T) -> None:
    assert choice(variant, "talker.text_embd.weight", (2048, 151936)) == (embedding, "embedding")
    assert choice(variant, "talker.codec_embd.weight", (1024, 3072)) == (embedding, "embedding")
    assert choice(variant, "talker.codec_head.weight", (1024, 3072)) == (head, "head")


def test_the_predictor_is_kept_better_in_4_and_5_bit_variants() -> None:
    embeddings = {"codec_embd.3.weight": (1024, 2048), "lm_head.3.weight": (1024, 2048)}
    for name, ne in (embeddings | {"blk.4.attn_v.weight": (1024, 1024), "mtp_proj.weight": (2048, 1024)}).items():
        full = f"code_pred.{name}"
        for variant in ("Q5_K_M", "Q4_K_M", "Q4_K_S"):
            assert choice(variant, full, ne, n_layers=5) == (T.Q8_0, "predictor kept better")
            assert choice(variant, full, ne, n_layers=5, predictor="f16") == (T.F16, "predictor as asked")
            assert choice(variant, full, ne, n_layers=5, predictor="Q4_K") == (T.Q4_K, "predictor as asked")
        for variant in ("F32", "F16", "BF16", "Q8_0", "Q6_K"):
            assert kinds(variant, full, ne, n_layers=5) == T[variant]
        assert kinds("Q8_0", full, ne, n_layers=5, predictor="BF16") == T.BF16
    mixed = Counter(kinds("Q8_0", f"code_pred.blk.{i}.attn_v.weight", (1024, 1024), n_layers=5, predictor="q4_k_m") for i in range(5))
    assert mixed == {T.Q6_K: 2, T.Q4_K: 3}  # layers 2 and 4 of 5
    assert kinds("Q4_K_M", "talker.blk.4.attn_q.weight", (1024, 1024), predictor="F32") == T.Q4_K


@pytest.mark.parametrize(
    ("variant", "name", "ne", "more", "words"),
    [
        ("Q3_K", "a", (32, 2), {}, ["variant", '"Q3_K"', ", ".join(VARIANTS)]),
        ("Q4_K", "a", (32, 2), {}, ["variant", '"Q4_K"']),  # a type, no variant of files
        ("", "a", (32, 2), {}, ["variant", '""']),
        ("F16", "a", (32, 2), {"predictor": "Q2"}, ["predictor_type", '"Q2"', "Q5_K, Q4_K"]),
        ("F16", "a", (), {}, ["n_dims", "0", "1 to 4"]),
        ("F16", "a", (32, 0), {}, ["ne[1]", "a is 0", "1 or more"]),
        ("F16", "a", (-32, 2), {}, ["ne[0]", "-32"]),
        ("Q4_K_M", "talker.blk.28.attn_v.weight", (1024, 1024), {}, ["block 28", "n_layers is 28", "talker.blk.28.attn_v.weight"]),
    ],
)
def test_refusals_name_the_argument(variant: str, name: str, ne: tuple[int, ...], more: dict[str, str], words: list[str]) -> None:
    with pytest.raises(ValueError) as error:
        choice(variant, name, ne, **more)  # type: ignore[arg-type]
    assert all(word in str(error.value) for word in words), error.value


def test_names_that_only_look_like_a_layer_are_matrices() -> None:
    odd = ("talker.blk.x.attn_v.weight", "talker.blk.99999999999999999999.attn_v.weight", "talker.blk.1.attn_v.weight.more")
    for name in (*odd, "blk.1.attn_v.weight"):
        assert choice("Q4_K_M", name, (1024, 1024)) == (T.Q4_K, "matrix")
