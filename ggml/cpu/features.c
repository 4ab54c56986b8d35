/* features.c - what the processor says it has, by name, for reports. The choice of a tier is tiers.c's. */
#include <stdio.h>
#include <string.h>

#include "../include/ggml-cpu.h"

#if defined(__x86_64__)
#  include <cpuid.h>

enum reg { EAX, EBX, ECX, EDX };

/* bits of CPUID: leaf, subleaf, register, bit */
static const struct { const char * name; unsigned leaf, sub; enum reg reg; unsigned bit; } features[] = {
    { "sse3", 1, 0, ECX, 0 },         { "ssse3", 1, 0, ECX, 9 },        { "sse4.1", 1, 0, ECX, 19 },      { "sse4.2", 1, 0, ECX, 20 },
    { "avx", 1, 0, ECX, 28 },         { "f16c", 1, 0, ECX, 29 },        { "fma", 1, 0, ECX, 12 },         { "avx2", 7, 0, EBX, 5 },
    { "bmi2", 7, 0, EBX, 8 },         { "avx_vnni", 7, 1, EAX, 4 },     { "avx512f", 7, 0, EBX, 16 },     { "avx512dq", 7, 0, EBX, 17 },
    { "avx512bw", 7, 0, EBX, 30 },    { "avx512vl", 7, 0, EBX, 31 },    { "avx512_vnni", 7, 0, ECX, 11 }, { "avx512_bf16", 7, 1, EAX, 5 },
    { "avx512_fp16", 7, 0, EDX, 23 }, { "amx_tile", 7, 0, EDX, 24 },    { "amx_int8", 7, 0, EDX, 25 },    { "amx_bf16", 7, 0, EDX, 22 },
};

/* bits of XCR0: registers that the operating system saves; without them the instructions above must not be used */
static const struct { const char * name; unsigned mask; } states[] = {
    { "os:avx", 0x6 }, { "os:avx512", 0xe6 }, { "os:amx", 0x60000 },
};

static size_t append(char * text, size_t size, size_t n, const char * name) {
    int more = n < size ? snprintf(text + n, size - n, "%s%s", n ? " " : "", name) : 0;
    return n + (size_t) (more > 0 ? more : 0);
}

const char * ggml_cpu_features(void) {
    static _Thread_local char text[512];
    unsigned leaf1[4] = { 0 };
    size_t n = append(text, sizeof text, 0, "sse2"); /* part of x86-64 */
    __get_cpuid(1, &leaf1[EAX], &leaf1[EBX], &leaf1[ECX], &leaf1[EDX]);
    for (size_t i = 0; i < sizeof features / sizeof features[0]; i++) {
        unsigned r[4] = { 0 };
        if (__get_cpuid_count(features[i].leaf, features[i].sub, &r[EAX], &r[EBX], &r[ECX], &r[EDX]) && (r[features[i].reg] >> features[i].bit & 1)) {
            n = append(text, sizeof text, n, features[i].name);
        }
    }
    if (leaf1[ECX] & bit_OSXSAVE) {
        unsigned lo, hi;
        __asm__ volatile("xgetbv" : "=a"(lo), "=d"(hi) : "c"(0));
        for (size_t i = 0; i < sizeof states / sizeof states[0]; i++) {
            if ((lo & states[i].mask) == states[i].mask) {
                n = append(text, sizeof text, n, states[i].name);
            }
        }
    }
    return text;
}

#elif defined(__aarch64__) && defined(__linux__)
#  include <asm/hwcap.h>
#  include <sys/auxv.h>

const char * ggml_cpu_features(void) {
    static _Thread_local char text[128];
    unsigned long one = getauxval(AT_HWCAP), two = getauxval(AT_HWCAP2);
    snprintf(text, sizeof text, "neon%s%s%s%s%s%s", one & HWCAP_ASIMDHP ? " fp16" : "", one & HWCAP_ASIMDDP ? " dotprod" : "",
             two & HWCAP2_I8MM ? " i8mm" : "", two & HWCAP2_BF16 ? " bf16" : "", one & HWCAP_SVE ? " sve" : "", two & HWCAP2_SVE2 ? " sve2" : "");
    return text;
}

#else

const char * ggml_cpu_features(void) { return ""; } /* nothing is asked on this system */

#endif
