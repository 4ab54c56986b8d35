/* quants_k_symmetric.c - rows to q6_K: x = d * scale * (q - 32), searched as in quants_k_affine.c but without offsets.
 *
 *   x [16 sub-blocks of 16] -> per sub-block the best real step, of either sign -> d from the largest, as f16
 *     -> per sub-block the best integer scale near step / d, q rounded against what it decodes to
 *     -> d again by least squares, once more the integers -> the better of both
 *
 * The quants -32 .. 31 reach further on one side, so the sign of a step matters: starts of both signs are tried. */
#include "quants_k.h"

#define N_SUB 16
#define N_GROUPS (QK_K / N_SUB / LANES)
#define Q_LOW (-32)
#define Q_HIGH 31
#define N_STARTS 3   /* of each sign, the largest value 0.9 of a step inside, at, or outside the end: 5 and 9 gain under 0.3 % */
#define N_ROUNDS 2

struct scales { uint16_t d; lanes scale[N_GROUPS]; };

static lanes quants_of(lanes x, lanes inv) { return lanes_round(x * inv, lanes_of(Q_LOW), lanes_of(Q_HIGH)); }

/* The sums of w q^2 and w q x. */
static void q_moments_of(const lanes * x, const lanes * w, lanes inv, lanes * wqq, lanes * wqx) {
    *wqq = *wqx = lanes_of(0);
    for (int i = 0; i < N_SUB; i++) {
        lanes q = quants_of(x[i], inv);
        lanes wq = w[i] * q;
        *wqq += wq * q;
        *wqx += wq * x[i];
    }
}

static lanes error_of(const lanes * x, const lanes * w, lanes step) {
    lanes inv = lanes_ratio(lanes_of(1), step), sum = lanes_of(0);
    for (int i = 0; i < N_SUB; i++) {
        lanes e = x[i] - step * quants_of(x[i], inv);
        sum += w[i] * e * e;
    }
    return sum;
}

/* For given quants the best step is wqx / wqq and takes wqx^2 / wqq off the error, so the largest such gain wins. */
static lanes search(const lanes * x, const lanes * w) {
    lanes extreme = x[0];
    for (int i = 1; i < N_SUB; i++) {
        extreme = lanes_pick(x[i] * x[i] > extreme * extreme, x[i], extreme);
    }
    lanes best = lanes_of(0), most = lanes_of(0);
    for (int k = 0; k < 2 * N_STARTS; k++) {
        float delta = 0.9f * (float) (2 * (k / 2) - N_STARTS + 1) / (float) (N_STARTS - 1);
        lanes inv = lanes_ratio(lanes_of(k % 2 ? Q_HIGH + delta : Q_LOW - delta), extreme);
        for (int again = 0; again < 2; again++) {
            lanes wqq, wqx;
            q_moments_of(x, w, inv, &wqq, &wqx);
            lanes step = lanes_ratio(wqx, wqq), gain = step * wqx;
            lane_mask better = gain > most;
            most = lanes_pick(better, gain, most);
            best = lanes_pick(better, step, best);
            inv = lanes_ratio(lanes_of(1), step);
        }
    }
    return best;
}

/* Integers for the wanted steps: of the three around each the one that decodes best. Returns the error of the super-block. */
static float choose_integers(const struct k_block * b, const lanes wanted[N_GROUPS], struct scales * s) {
    float d = half_f16_to_f32(s->d) / b->unit, total = 0;
    const lanes low = lanes_of(-128), high = lanes_of(127);
    for (int g = 0; g < N_GROUPS; g++) {
        lanes scale = lanes_round(lanes_ratio(wanted[g], lanes_of(d)), low, high);
        lanes least = lanes_of(INFINITY);
        for (int k = -1; k <= 1; k++) {
            lanes near = lanes_min(lanes_max(scale + (float) k, low), high);
            lanes error = error_of(b->x + g * N_SUB, b->w + g * N_SUB, d * near);
            lane_mask better = error < least;
            least = lanes_pick(better, error, least);
            s->scale[g] = lanes_pick(better, near, k < 0 ? near : s->scale[g]);
        }
        total += lanes_sum(least);
    }
    return total;
}

static void pack(struct k_block * b, struct scales * best, uint8_t q[QK_K]) {
    lanes wanted[N_GROUPS];
    float d = 0, least = INFINITY;
    for (int g = 0; g < N_GROUPS; g++) {
        wanted[g] = search(b->x + g * N_SUB, b->w + g * N_SUB);
        for (int l = 0; l < LANES; l++) {
            float needed = wanted[g][l] / -128.0f; /* the largest step gets the integer that reaches furthest */
            d = fabsf(needed) > fabsf(d) ? needed : d;
        }
    }
    for (int round = 0; round < N_ROUNDS; round++) {
        struct scales s = { .d = f16_scale(d * b->unit) };
        float error = choose_integers(b, wanted, &s);
        if (!(error < least)) {
            break;
        }
        least = error;
        *best = s;
        float now = half_f16_to_f32(s.d) / b->unit, aa = 0, ax = 0;
        for (int g = 0; g < N_GROUPS; g++) {
            lanes wqq, wqx;
            q_moments_of(b->x + g * N_SUB, b->w + g * N_SUB, lanes_ratio(lanes_of(1), now * s.scale[g]), &wqq, &wqx);
            aa += lanes_sum(s.scale[g] * s.scale[g] * wqq);
            ax += lanes_sum(s.scale[g] * wqx);
        }
        if (!(aa > 0)) {
            break;
        }
        d = ax / aa;
        for (int g = 0; g < N_GROUPS; g++) {
            wanted[g] = d * s.scale[g];
        }
    }
    float step = half_f16_to_f32(best->d) / b->unit;
    for (int g = 0; g < N_GROUPS; g++) {
        lanes inv = lanes_ratio(lanes_of(1), step * best->scale[g]);
        for (int i = 0; i < N_SUB; i++) {
            lanes v = quants_of(b->x[g * N_SUB + i], inv);
            for (int l = 0; l < LANES; l++) {
                q[(g * LANES + l) * N_SUB + i] = (uint8_t) ((int) v[l] - Q_LOW);
            }
        }
    }
}

void quantize_row_q6_K(const float * x, void * y, int64_t k, const float * weights) {
    struct block_q6_K * out = y;
    for (int64_t i = 0; i < k / QK_K; i++, out++) {
        struct k_block b;
        struct scales s = { 0 };
        uint8_t q[QK_K];
        memset(out, 0, sizeof *out);
        if (!k_block_load(&b, x + i * QK_K, weights ? weights + i * QK_K : NULL, N_SUB)) {
            continue;
        }
        pack(&b, &s, q);
        out->d = s.d;
        for (int j = 0; j < QK_K / N_SUB; j++) {
            out->scales[j] = (int8_t) s.scale[j / LANES][j % LANES];
        }
        for (int j = 0; j < QK_K; j++) {
            int half = j / 128, g = j % 128 / 32, l = j % 32;
            uint8_t * ql = &out->ql[half * 64 + g % 2 * 32 + l], * qh = &out->qh[half * 32 + l];
            *ql = (uint8_t) (*ql | (q[j] & 15) << g / 2 * 4);
            *qh = (uint8_t) (*qh | q[j] >> 4 << g * 2);
        }
    }
}

void quantize_row_q6_K_ref(const float * x, void * y, int64_t k) { quantize_row_q6_K(x, y, k, NULL); }
