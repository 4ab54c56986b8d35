/* flash_attn.c - attention in one pass: q [hd, T, H] F32, k and v [hd, n_kv, H_kv] (F32, F16, BF16), mask [n_kv, >= T] F32, F16 or none -> [hd, H, T].
 * A tile of rows, times and heads that share k and v, walks the keys in blocks of KV_BLOCK with a running maximum and sum a row: k and v are read once for all
 * its rows. A decode step's tile is the heads of a group at one time and reads k and v where they lie; a larger tile widens a block to F32 once.
 * A key whose mask is -inf has no effect, whatever it holds, and neither has the length of a masked tail; a row without any key gives zeros.
 * What a row gives does not depend on the tile it is in, nor on the number of threads (flash_tile.h). */
#include "flash_tile.h"

#define MOST_ROWS 64  /* of a tile: q, its sums and a widened block take 144 KB at a head width of 128, in the L2 cache */
#define WIDEN_FROM 5  /* rows: fewer convert in registers */
#define EVEN_UNITS 8  /* a thread: with fewer units than this a rest would show, so tiles are made smaller until they go round */

struct flash {
    const struct ggml_tensor * q, * k, * v, * mask, * dst;
    float scale;
    int64_t group, batch_group; /* heads of q that share one of k */
    int64_t k_padded, v_padded; /* floats of a row in scratch, whole vectors */
    int64_t rows_head;          /* T * group: time-major, so that neighbours share a row of the mask */
    int64_t rows_tile;          /* at most MOST_ROWS */
};

/* Per thread. Rows are up to a multiple of TILE_ROWS. */
struct tile {
    float * q;     /* [rows, k_padded] */
    float * acc;   /* [rows, v_padded]: the weighted sum of v */
    float * score; /* [rows, KV_BLOCK] */
    float * k, * v; /* [KV_BLOCK, padded]: a block widened */
    int n_rows;
    int64_t first_row; /* of rows_head */
    float most[MOST_ROWS], sum[MOST_ROWS], keep[MOST_ROWS];
    uint64_t seen[MOST_ROWS]; /* keys of the block */
    bool biased[MOST_ROWS];   /* some seen key's mask is not 0 */
    const void * mask[MOST_ROWS];
};

static struct flash flash_of(const struct ggml_tensor * dst) {
    struct flash f = { .q = dst->src[0], .k = dst->src[1], .v = dst->src[2], .mask = dst->src[3], .dst = dst, .scale = ggml_get_op_params_f32(dst, 0) };
    f.group = f.q->ne[2] / f.k->ne[2];
    f.batch_group = f.q->ne[3] / f.k->ne[3];
    f.k_padded = GGML_PAD(f.q->ne[0], VF_N);
    f.v_padded = GGML_PAD(f.dst->ne[0], VF_N);
    f.rows_head = f.q->ne[1] * f.group;
    f.rows_tile = f.rows_head < MOST_ROWS ? f.rows_head : MOST_ROWS;
    return f;
}

static size_t thread_floats(const struct flash * f) {
    size_t rows = GGML_PAD((size_t) f->rows_tile, TILE_ROWS);
    size_t blocks = f->rows_tile < WIDEN_FROM ? 0 : KV_BLOCK * (size_t) (f->k_padded + f->v_padded);
    return GGML_PAD(rows * (size_t) (f->k_padded + f->v_padded + KV_BLOCK) + blocks, 16);
}

size_t KERNEL(cpu_scratch_flash_attn_ext)(const struct ggml_tensor * dst, int nth) {
    struct flash f = flash_of(dst);
    return thread_floats(&f) * (size_t) nth * sizeof(float);
}

static int64_t n_tiles(const struct flash * f) { return (f->rows_head + f->rows_tile - 1) / f->rows_tile; }

/* Tiles of about the same size, small enough that every thread has as many. */
static void choose_tiles(struct flash * f, int nth) {
    int64_t n_heads = f->k->ne[2] * f->q->ne[3];
    while (f->rows_tile > 1 && n_heads * n_tiles(f) < EVEN_UNITS * nth && n_heads * n_tiles(f) % nth != 0) {
        f->rows_tile = (f->rows_tile + 1) / 2;
    }
    int64_t even = (f->rows_head + n_tiles(f) - 1) / n_tiles(f);
    even = even > TILE_ROWS ? GGML_PAD(even, TILE_ROWS) : even;
    f->rows_tile = even < f->rows_tile ? even : f->rows_tile;
}

static void tile_place(struct tile * tile, const struct flash * f, float * memory) {
    int64_t rows = GGML_PAD(f->rows_tile, TILE_ROWS);
    tile->q = memory;
    tile->acc = tile->q + rows * f->k_padded;
    tile->score = tile->acc + rows * f->v_padded;
    tile->k = tile->score + rows * KV_BLOCK;
    tile->v = tile->k + KV_BLOCK * f->k_padded;
}

/* The row of q that a tile's row is; head is one of k's. */
static struct row row_at(const struct flash * f, const struct tile * tile, int r, int64_t head, int64_t batch) {
    int64_t i = tile->first_row + r;
    return (struct row) { .i1 = i / f->group, .i2 = head * f->group + i % f->group, .i3 = batch };
}

static void tile_begin(struct tile * tile, const struct flash * f, int64_t head, int64_t batch) {
    int64_t rows = GGML_PAD(tile->n_rows, TILE_ROWS);
    memset(tile->q, 0, (size_t) (rows * f->k_padded) * sizeof(float));
    memset(tile->acc, 0, (size_t) (rows * f->v_padded) * sizeof(float));
    memset(tile->score, 0, (size_t) (rows * KV_BLOCK) * sizeof(float));
    for (int r = 0; r < tile->n_rows; r++) {
        struct row at = row_at(f, tile, r, head, batch);
        memcpy(tile->q + r * f->k_padded, row_data(f->q, at), (size_t) f->q->ne[0] * sizeof(float));
        tile->mask[r] = f->mask ? row_data_tiled(f->mask, at) : NULL;
        tile->most[r] = -INFINITY;
        tile->sum[r] = 0.0f;
    }
}

static float mask_at(const void * mask, enum ggml_type type, int64_t i) {
    return type == GGML_TYPE_F32 ? ((const float *) mask)[i] : ggml_fp16_to_fp32(((const uint16_t *) mask)[i]);
}

/* Bits of the n keys from first on whose mask is not -inf. Most blocks are seen or hidden from end to end. */
static uint64_t mask_bits(const void * mask, enum ggml_type type, int64_t first, int n, bool * biased) {
    uint64_t all = n == KV_BLOCK ? ~UINT64_C(0) : (UINT64_C(1) << n) - 1, bits = 0;
    *biased = false;
    if (!mask) {
        return all;
    }
    if (type == GGML_TYPE_F32 && n == KV_BLOCK) {
        uint32_t words[KV_BLOCK], any = 0, other = 0;
        memcpy(words, (const float *) mask + first, sizeof words);
        for (int j = 0; j < KV_BLOCK; j++) {
            any |= words[j];
            other |= words[j] ^ 0xff800000u;
        }
        if (any == 0 || other == 0) {
            return any == 0 ? all : 0;
        }
    }
    for (int j = 0; j < n; j++) {
        float bias = mask_at(mask, type, first + j);
        bits |= (uint64_t) (bias != -INFINITY) << j;
        *biased = *biased || (bias != 0.0f && bias != -INFINITY);
    }
    return bits;
}

/* The keys of the block that each row sees; returns those that any sees, *same whether all see the same. */
static uint64_t see(struct tile * tile, enum ggml_type type, int64_t first, int n, bool * same) {
    uint64_t any = 0;
    *same = true;
    for (int r = 0; r < tile->n_rows; r++) {
        if (r > 0 && tile->mask[r] == tile->mask[r - 1]) {
            tile->seen[r] = tile->seen[r - 1];
            tile->biased[r] = tile->biased[r - 1];
        } else {
            tile->seen[r] = mask_bits(tile->mask[r], type, first, n, &tile->biased[r]);
        }
        any |= tile->seen[r];
        *same = *same && tile->seen[r] == tile->seen[0];
    }
    return any;
}

/* Scores of row r become weights e^(score - most), 0 where a key is not seen; most, sum and keep (what the sums so far are worth) go on. */
static void weigh(struct tile * tile, int r, float scale, enum ggml_type mask_type, int64_t first) {
    float * score = tile->score + r * KV_BLOCK;
    const uint64_t seen = tile->seen[r];
    for (int j = 0; j < KV_BLOCK; j += VF_N) {
        vf_store(score + j, vf_mul(vf_load(score + j), vf_set1(scale)));
    }
    if (tile->biased[r]) {
        for (int j = 0; j < KV_BLOCK; j++) {
            score[j] += seen >> j & 1 ? mask_at(tile->mask[r], mask_type, first + j) : 0.0f;
        }
    }
    if (seen != ~UINT64_C(0)) {
        for (int j = 0; j < KV_BLOCK; j++) {
            score[j] = seen >> j & 1 ? score[j] : -INFINITY;
        }
    }
    vf highest = vf_set1(tile->most[r]);
    for (int j = 0; j < KV_BLOCK; j += VF_N) {
        highest = vf_max(vf_load(score + j), highest);
    }
    const float was = tile->most[r], most = vf_hmax(highest);
    vf sum = vf_zero();
    for (int j = 0; j < KV_BLOCK; j += VF_N) {
        vf e = vf_exp(vf_sub(vf_load(score + j), vf_set1(most)));
        vf_store(score + j, e);
        sum = vf_add(sum, e);
    }
    tile->most[r] = most;
    tile->keep[r] = was == -INFINITY ? 0.0f : was == most ? 1.0f : expf(was - most);
    tile->sum[r] = tile->sum[r] * tile->keep[r] + vf_sum(sum);
}

/* The block's rows that count: those of bits. */
static struct kv_block block_of(const struct ggml_tensor * t, struct row head, int64_t first, uint64_t bits, bool ahead) {
    return (struct kv_block) { .data = row_data(t, head) + (size_t) first * t->nb[1], .stride = t->nb[1], .first = __builtin_ctzll(bits),
                               .last = 64 - __builtin_clzll(bits), .ahead = ahead };
}

/* The same block as F32 in memory, where that pays. */
static enum ggml_type widened(struct kv_block * block, const struct tile * tile, int64_t hd, enum ggml_type type, float * memory, int64_t padded) {
    if (tile->n_rows < WIDEN_FROM || (type == GGML_TYPE_F32 && hd == padded)) {
        return type;
    }
    widen(block, hd, type, memory, padded);
    block->data = (const char *) memory;
    block->stride = (size_t) padded * sizeof(float);
    block->ahead = false;
    return GGML_TYPE_F32;
}

static void tile_run(struct tile * tile, const struct flash * f, int64_t head, int64_t batch) {
    const struct row kv = { .i2 = head, .i3 = batch / f->batch_group };
    const enum ggml_type mask_type = f->mask ? f->mask->type : GGML_TYPE_F32;
    const int64_t n_kv = f->k->ne[1];
    tile_begin(tile, f, head, batch);
    for (int64_t first = 0; first < n_kv; first += KV_BLOCK) {
        bool same, ahead = tile->n_rows < WIDEN_FROM && first + KV_BLOCK < n_kv;
        uint64_t any = see(tile, mask_type, first, n_kv - first < KV_BLOCK ? (int) (n_kv - first) : KV_BLOCK, &same);
        if (any == 0) {
            continue;
        }
        struct kv_block k = block_of(f->k, kv, first, any, ahead);
        enum ggml_type type = widened(&k, tile, f->q->ne[0], f->k->type, tile->k, f->k_padded);
        scores(tile->n_rows, tile->q, f->k_padded, &k, f->q->ne[0], tile->score, type);
        for (int r = 0; r < tile->n_rows; r++) {
            if (tile->seen[r]) {
                weigh(tile, r, f->scale, mask_type, first);
            }
        }
        struct kv_block v = block_of(f->v, kv, first, any, ahead);
        type = widened(&v, tile, f->dst->ne[0], f->v->type, tile->v, f->v_padded);
        for (int r = 0, n; r < tile->n_rows; r += n) { /* rows that see the same keys together */
            for (n = 1; r + n < tile->n_rows && (same || tile->seen[r + n] == tile->seen[r]); n++) {
            }
            if (tile->seen[r]) {
                gather(n, tile->score + r * KV_BLOCK, &v, tile->seen[r], f->dst->ne[0], tile->keep + r, tile->acc + r * f->v_padded, f->v_padded, type);
                v.ahead = false;
            }
        }
    }
    for (int r = 0; r < tile->n_rows; r++) {
        struct row at = row_at(f, tile, r, head, batch);
        float * out = (float *) row_data(f->dst, (struct row) { .i1 = at.i2, .i2 = at.i1, .i3 = at.i3 });
        const float sum = tile->sum[r], factor = sum > 0.0f || isnan(sum) ? 1.0f / sum : 0.0f;
        for (int64_t i = 0; i < f->dst->ne[0]; i++) {
            out[i] = tile->acc[r * f->v_padded + i] * factor;
        }
    }
}

void KERNEL(cpu_op_flash_attn_ext)(const struct cpu_task * task, struct ggml_tensor * dst) {
    struct flash f = flash_of(dst);
    float * memory = (float *) task->scratch + thread_floats(&f) * (size_t) task->ith;
    choose_tiles(&f, task->nth);
    struct tile tile;
    tile_place(&tile, &f, memory);
    const int64_t per_head = n_tiles(&f), n_units = per_head * f.k->ne[2] * f.q->ne[3];
    for (int64_t u = task->ith; u < n_units; u += task->nth) {
        int64_t head = u / per_head;
        tile.first_row = u % per_head * f.rows_tile;
        tile.n_rows = (int) (f.rows_head - tile.first_row < f.rows_tile ? f.rows_head - tile.first_row : f.rows_tile);
        tile_run(&tile, &f, head % f.k->ne[2], head / f.k->ne[2]);
    }
}
