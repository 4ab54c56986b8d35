/* quants_k_affine.c - rows to q4_K and q5_K: x = d * scale * q - dmin * min with the squared error made small, not only each rounding.
 *
 *   x [8 sub-blocks of 32] -> per sub-block the best real step s and offset o <= 0 -> d, dmin from the largest of them, as f16
 *     -> per sub-block the best integers scale, min near s / d, -o / dmin, q rounded against what they decode to
 *     -> d, dmin again by least squares over the whole super-block, once more the integers -> the better of both
 *
 * For given integers q the sum of w (x - s q - o)^2 is a quadratic in s and o with a closed minimum; for given s and o the best q are the
 * nearest ones. Neither step can make the sum larger, so a few of both from several starts end near its least value. */
#include "quants_k.h"

#define N_SUB 32
#define N_GROUPS (QK_K / N_SUB / LANES)
#define N_STARTS 7   /* ranges between 1.2 steps wider and 1.2 steps narrower than what the values span: outliers may be cut */
#define N_ROUNDS 2

struct affine { lanes step, offset; };                /* x = step q + offset */
struct moments { lanes w, wx, wxx; };                 /* of a sub-block's values */
struct q_moments { lanes wq, wqq, wqx; };             /* with its quants */
struct scales { uint16_t d, dmin; lanes scale[N_GROUPS], min[N_GROUPS]; };

static struct moments moments_of(const lanes * x, const lanes * w) {
    struct moments m = { lanes_of(0), lanes_of(0), lanes_of(0) };
    for (int i = 0; i < N_SUB; i++) {
        lanes wx = w[i] * x[i];
        m.w += w[i];
        m.wx += wx;
        m.wxx += wx * x[i];
    }
    return m;
}

static struct q_moments q_moments_of(const lanes * x, const lanes * w, lanes inv, lanes offset, lanes q_max) {
    struct q_moments m = { lanes_of(0), lanes_of(0), lanes_of(0) };
    for (int i = 0; i < N_SUB; i++) {
        lanes q = lanes_round((x[i] - offset) * inv, lanes_of(0), q_max);
        lanes wq = w[i] * q;
        m.wq += wq;
        m.wqq += wq * q;
        m.wqx += wq * x[i];
    }
    return m;
}

static lanes error_of(const lanes * x, const lanes * w, struct affine a, lanes q_max) {
    lanes inv = lanes_ratio(lanes_of(1), a.step), sum = lanes_of(0);
    for (int i = 0; i < N_SUB; i++) {
        lanes q = lanes_round((x[i] - a.offset) * inv, lanes_of(0), q_max);
        lanes e = x[i] - (a.step * q + a.offset);
        sum += w[i] * e * e;
    }
    return sum;
}

/* The minimum over step and offset for given quants; where its offset is positive, which min cannot be, the one with offset 0. */
static struct affine solve(struct moments m, struct q_moments t) {
    lanes step = lanes_ratio(m.w * t.wqx - t.wq * m.wx, m.w * t.wqq - t.wq * t.wq);
    struct affine a = { step, (m.wx - step * t.wq) / m.w };
    lane_mask positive = a.offset > lanes_of(0);
    a.step = lanes_pick(positive, lanes_ratio(t.wqx, t.wqq), a.step);
    a.offset = lanes_pick(positive, lanes_of(0), a.offset);
    return a;
}

/* The sum of w (x - step q - offset)^2, from moments. */
static lanes error_from(struct moments m, struct q_moments t, struct affine a) {
    return m.wxx - 2 * a.step * t.wqx - 2 * a.offset * m.wx + a.step * a.step * t.wqq + 2 * a.step * a.offset * t.wq + a.offset * a.offset * m.w;
}

static struct affine search(const lanes * x, const lanes * w, struct moments m, lanes q_max) {
    lanes low = lanes_of(0), high = x[0];
    for (int i = 0; i < N_SUB; i++) {
        low = lanes_min(x[i], low);
        high = lanes_max(x[i], high);
    }
    struct affine best = { lanes_of(0), low };
    lanes least = lanes_of(INFINITY);
    for (int k = 0; k < N_STARTS; k++) {
        lanes offset = low;
        lanes inv = lanes_ratio(q_max + (1.2f * (float) (2 * k - N_STARTS + 1) / (float) (N_STARTS - 1)), high - low);
        for (int again = 0; again < 2; again++) {
            struct q_moments t = q_moments_of(x, w, inv, offset, q_max);
            struct affine a = solve(m, t);
            lanes error = error_from(m, t, a);
            lane_mask better = (error < least) & (a.step > lanes_of(0));
            least = lanes_pick(better, error, least);
            best.step = lanes_pick(better, a.step, best.step);
            best.offset = lanes_pick(better, a.offset, best.offset);
            inv = lanes_ratio(lanes_of(1), a.step);
            offset = a.offset;
        }
    }
    return best;
}

static struct affine decoded(const struct k_block * b, const struct scales * s, int g) {
    float d = half_f16_to_f32(s->d) / b->unit, dmin = half_f16_to_f32(s->dmin) / b->unit;
    return (struct affine) { d * s->scale[g], -(dmin * s->min[g]) };
}

/* Integers for the wanted steps and offsets: of the nine pairs around them the one that decodes best. Returns the error of the super-block. */
static float choose_integers(const struct k_block * b, const struct affine wanted[N_GROUPS], lanes q_max, struct scales * s) {
    float d = half_f16_to_f32(s->d) / b->unit, dmin = half_f16_to_f32(s->dmin) / b->unit, total = 0;
    const lanes zero = lanes_of(0), most = lanes_of(63);
    for (int g = 0; g < N_GROUPS; g++) {
        lanes scale = lanes_round(lanes_ratio(wanted[g].step, lanes_of(d)), zero, most);
        lanes min = lanes_round(lanes_ratio(-wanted[g].offset, lanes_of(dmin)), zero, most);
        lanes least = lanes_of(INFINITY);
        for (int k = 0; k < 9; k++) {
            struct scales near = *s;
            near.scale[g] = lanes_min(lanes_max(scale + (float) (k / 3 - 1), zero), most);
            near.min[g] = lanes_min(lanes_max(min + (float) (k % 3 - 1), zero), most);
            lanes error = error_of(b->x + g * N_SUB, b->w + g * N_SUB, decoded(b, &near, g), q_max);
            lane_mask better = error < least;
            least = lanes_pick(better, error, least);
            s->scale[g] = lanes_pick(better, near.scale[g], k ? s->scale[g] : near.scale[g]);
            s->min[g] = lanes_pick(better, near.min[g], k ? s->min[g] : near.min[g]);
        }
        total += lanes_sum(least);
    }
    return total;
}

/* d and dmin that are best for the integers and quants at hand, each positive or 0; false where the sums do not say. */
static bool refit(const struct k_block * b, const struct moments m[N_GROUPS], const struct scales * s, lanes q_max, float * d, float * dmin) {
    float aa = 0, ab = 0, bb = 0, ax = 0, bx = 0; /* x = d a - dmin b with a = scale q, b = min */
    for (int g = 0; g < N_GROUPS; g++) {
        struct affine now = decoded(b, s, g);
        struct q_moments t = q_moments_of(b->x + g * N_SUB, b->w + g * N_SUB, lanes_ratio(lanes_of(1), now.step), now.offset, q_max);
        aa += lanes_sum(s->scale[g] * s->scale[g] * t.wqq);
        ab += lanes_sum(s->scale[g] * s->min[g] * t.wq);
        bb += lanes_sum(s->min[g] * s->min[g] * m[g].w);
        ax += lanes_sum(s->scale[g] * t.wqx);
        bx += lanes_sum(s->min[g] * m[g].wx);
    }
    float det = aa * bb - ab * ab;
    if (det > 1e-6f * aa * bb) {
        *d = (ax * bb - ab * bx) / det;
        *dmin = (ax * ab - aa * bx) / det;
    } else { /* one of the two is not used */
        *d = aa > 0 ? ax / aa : 0;
        *dmin = aa > 0 || !(bb > 0) ? 0 : -bx / bb;
    }
    return *d >= 0 && *dmin >= 0;
}

/* The best scales found for the block, with its quants in the order of the input; all zeros where it has none. */
static void pack(struct k_block * b, int q_most, struct scales * best, uint8_t q[QK_K]) {
    lanes q_max = lanes_of((float) q_most);
    struct moments m[N_GROUPS];
    struct affine wanted[N_GROUPS];
    float d = 0, dmin = 0, least = INFINITY;
    for (int g = 0; g < N_GROUPS; g++) {
        m[g] = moments_of(b->x + g * N_SUB, b->w + g * N_SUB);
        wanted[g] = search(b->x + g * N_SUB, b->w + g * N_SUB, m[g], q_max);
        for (int l = 0; l < LANES; l++) {
            d = fmaxf(d, wanted[g].step[l] / 63.0f);
            dmin = fmaxf(dmin, -wanted[g].offset[l] / 63.0f);
        }
    }
    for (int round = 0; round < N_ROUNDS; round++) {
        struct scales s = { .d = f16_scale(d * b->unit), .dmin = f16_scale(dmin * b->unit) };
        float error = choose_integers(b, wanted, q_max, &s);
        if (!(error < least)) {
            break;
        }
        least = error;
        *best = s;
        if (!refit(b, m, &s, q_max, &d, &dmin)) {
            break;
        }
        for (int g = 0; g < N_GROUPS; g++) {
            wanted[g] = (struct affine) { d * s.scale[g], -(dmin * s.min[g]) };
        }
    }
    for (int g = 0; g < N_GROUPS; g++) {
        struct affine a = decoded(b, best, g);
        lanes inv = lanes_ratio(lanes_of(1), a.step);
        for (int i = 0; i < N_SUB; i++) {
            lanes v = lanes_round((b->x[g * N_SUB + i] - a.offset) * inv, lanes_of(0), q_max);
            for (int l = 0; l < LANES; l++) {
                q[(g * LANES + l) * N_SUB + i] = (uint8_t) v[l];
            }
        }
    }
}

/* The inverse of k_scale and k_min. */
static void put_scales(uint8_t out[K_SCALE_SIZE], const struct scales * s) {
    memset(out, 0, K_SCALE_SIZE);
    for (int j = 0; j < 4; j++) {
        int low_scale = (int) s->scale[0][j], low_min = (int) s->min[0][j];
        int high_scale = (int) s->scale[1][j], high_min = (int) s->min[1][j];
        out[j] = (uint8_t) (low_scale | high_scale >> 4 << 6);
        out[j + 4] = (uint8_t) (low_min | high_min >> 4 << 6);
        out[j + 8] = (uint8_t) ((high_scale & 15) | (high_min & 15) << 4);
    }
}

void quantize_row_q4_K(const float * x, void * y, int64_t k, const float * weights) {
    struct block_q4_K * out = y;
    for (int64_t i = 0; i < k / QK_K; i++, out++) {
        struct k_block b;
        struct scales s = { 0 };
        uint8_t q[QK_K];
        if (!k_block_load(&b, x + i * QK_K, weights ? weights + i * QK_K : NULL, N_SUB)) {
            *out = (struct block_q4_K) { 0 };
            continue;
        }
        pack(&b, 15, &s, q);
        out->d = s.d;
        out->dmin = s.dmin;
        put_scales(out->scales, &s);
        for (int j = 0; j < QK_K / 2; j++) {
            int low = j / 32 * 64 + j % 32;
            out->qs[j] = (uint8_t) (q[low] | q[low + 32] << 4);
        }
    }
}

void quantize_row_q5_K(const float * x, void * y, int64_t k, const float * weights) {
    struct block_q5_K * out = y;
    for (int64_t i = 0; i < k / QK_K; i++, out++) {
        struct k_block b;
        struct scales s = { 0 };
        uint8_t q[QK_K];
        if (!k_block_load(&b, x + i * QK_K, weights ? weights + i * QK_K : NULL, N_SUB)) {
            *out = (struct block_q5_K) { 0 };
            continue;
        }
        pack(&b, 31, &s, q);
        out->d = s.d;
        out->dmin = s.dmin;
        put_scales(out->scales, &s);
        memset(out->qh, 0, sizeof out->qh);
        for (int j = 0; j < QK_K; j++) {
            out->qh[j % 32] = (uint8_t) (out->qh[j % 32] | q[j] >> 4 << j / 32);
        }
        for (int j = 0; j < QK_K / 2; j++) {
            int low = j / 32 * 64 + j % 32;
            out->qs[j] = (uint8_t) ((q[low] & 15) | (q[low + 32] & 15) << 4);
        }
    }
}

void quantize_row_q4_K_ref(const float * x, void * y, int64_t k) { quantize_row_q4_K(x, y, k, NULL); }
void quantize_row_q5_K_ref(const float * x, void * y, int64_t k) { quantize_row_q5_K(x, y, k, NULL); }
