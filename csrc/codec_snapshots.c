/* codec_snapshots.c - least recently used goes first. Codes are looked up by a 64-bit FNV-1a hash and then compared one by one: two references
 * of one hash are two voices. Slots are allocated when they are first used. */
#include "codec_snapshots.h"

#include <stdlib.h>
#include <string.h>

static uint64_t hash_of(const int32_t * codes, int64_t n) {
    uint64_t hash = 0xcbf29ce484222325u;
    for (int64_t i = 0; i < n; i++) {
        for (int shift = 0; shift < 32; shift += 8) { /* bytes from the low one up, on any machine */
            hash = (hash ^ ((uint32_t) codes[i] >> shift & 0xff)) * 0x100000001b3u;
        }
    }
    return hash;
}

static void slot_free(struct codec_snapshot * slot) {
    free(slot->codes);
    free(slot->state);
    *slot = (struct codec_snapshot) { 0 };
}

static struct codec_snapshot * find(struct codec_snapshots * s, const int32_t * codes, int64_t n, uint64_t hash) {
    for (int i = 0; i < SNAPSHOT_SLOTS; i++) {
        struct codec_snapshot * slot = &s->slots[i];
        if (slot->codes && slot->hash == hash && slot->n_codes == n && memcmp(slot->codes, codes, (size_t) n * sizeof *codes) == 0) {
            return slot;
        }
    }
    return NULL;
}

const float * codec_snapshots_find(struct codec_snapshots * s, const int32_t * codes, int64_t n_codes) {
    struct codec_snapshot * slot = find(s, codes, n_codes, hash_of(codes, n_codes));
    if (!slot) {
        return NULL;
    }
    slot->last_used = ++s->clock;
    return slot->state;
}

float * codec_snapshots_add(struct codec_snapshots * s, const int32_t * codes, int64_t n_codes, int64_t n_state) {
    uint64_t hash = hash_of(codes, n_codes);
    struct codec_snapshot * slot = find(s, codes, n_codes, hash);
    for (int i = 0; !slot && i < SNAPSHOT_SLOTS; i++) {
        slot = s->slots[i].codes ? NULL : &s->slots[i];
    }
    if (!slot) {
        slot = &s->slots[0];
        for (int i = 1; i < SNAPSHOT_SLOTS; i++) {
            slot = s->slots[i].last_used < slot->last_used ? &s->slots[i] : slot;
        }
    }
    slot_free(slot);
    slot->codes = malloc((size_t) n_codes * sizeof *slot->codes);
    slot->state = malloc((size_t) n_state * sizeof *slot->state);
    if (!slot->codes || !slot->state) {
        slot_free(slot);
        return NULL;
    }
    memcpy(slot->codes, codes, (size_t) n_codes * sizeof *codes);
    slot->hash = hash;
    slot->n_codes = n_codes;
    slot->n_state = n_state;
    slot->last_used = ++s->clock;
    return slot->state;
}

void codec_snapshots_free(struct codec_snapshots * s) {
    for (int i = 0; i < SNAPSHOT_SLOTS; i++) {
        slot_free(&s->slots[i]);
    }
    *s = (struct codec_snapshots) { 0 };
}
