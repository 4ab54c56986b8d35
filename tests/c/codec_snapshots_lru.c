/* codec_snapshots_lru.c - the store of primed states by itself: who is dropped, what a collision of hashes gives, what is replaced. The source is
 * compiled in, so that the test can give two references one hash, which nobody can find codes for. Exit code = failures. */
#include "../../csrc/codec_snapshots.c"

#include <stdio.h>

static int failures;

static void check(int holds, const char * what) {
    if (!holds) {
        failures++;
        printf("FAIL %s\n", what);
    }
}

static void add(struct codec_snapshots * s, int32_t code) {
    float * state = codec_snapshots_add(s, &code, 1, 2);
    check(state != NULL, "room");
    if (state) {
        state[0] = (float) code;
        state[1] = -(float) code;
    }
}

static int holds(struct codec_snapshots * s, int32_t code) {
    const float * state = codec_snapshots_find(s, &code, 1);
    check(!state || (state[0] == (float) code && state[1] == -(float) code), "a state is that of its codes");
    return state != NULL;
}

int main(void) {
    struct codec_snapshots s = { 0 };
    check(!holds(&s, 1), "an empty store holds nothing");
    for (int32_t code = 0; code < SNAPSHOT_SLOTS; code++) add(&s, code);
    check(holds(&s, 0), "the first is held"); /* and now the last used */
    add(&s, 100);
    check(holds(&s, 0) && !holds(&s, 1), "the least recently used goes, not the oldest");
    add(&s, 2); /* again */
    int n_held = 0;
    for (int32_t code = 0; code < SNAPSHOT_SLOTS; code++) n_held += holds(&s, code);
    check(n_held == SNAPSHOT_SLOTS - 1 && holds(&s, 100), "what is added again takes its own slot");

    int32_t pair[2] = { 0, 0 }, other = 77;
    check(codec_snapshots_find(&s, pair, 2) == NULL, "codes that begin alike are others");
    for (int i = 0; i < SNAPSHOT_SLOTS; i++) s.slots[i].hash = hash_of(&other, 1);
    check(!holds(&s, other), "codes of one hash are compared");

    int32_t known[2] = { 1, -1 };
    check(hash_of(NULL, 0) == 0xcbf29ce484222325u && hash_of(known, 2) != hash_of(known, 1), "FNV-1a starts from its offset");
    codec_snapshots_free(&s);
    check(!holds(&s, 100), "a freed store holds nothing");
    printf("codec_snapshots_lru: %d failures\n", failures);
    return failures;
}
