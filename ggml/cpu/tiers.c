/* tiers.c - detects instruction sets once and picks a kernel table; QWENTTS_CPU_TIER overrides.
 * A tier is usable when it was compiled in, the processor has its instructions, and the operating system saves its registers (XCR0); Linux also
 * wants to be asked before a process uses AMX tiles, once, and may refuse. */
#include "tiers.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../include/ggml-cpu.h"

#if defined(__x86_64__)
#  include <cpuid.h>

enum { XCR0_AVX = 0x6, XCR0_AVX512 = 0xe6, XCR0_AMX = 0x60000 }; /* SSE and AVX state; those, mask registers and both upper halves; tiles and their shapes */

static unsigned xcr0(void) {
    unsigned lo, hi;
    __asm__ volatile("xgetbv" : "=a"(lo), "=d"(hi) : "c"(0));
    return lo;
}

static void detect_x86(int * avx2, int * avx512) {
    unsigned a, b, c, d, b7 = 0, c7 = 0;
    *avx2 = *avx512 = 0;
    if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & bit_OSXSAVE)) {
        return;
    }
    unsigned c1 = c, state = xcr0();
    if (__get_cpuid_count(7, 0, &a, &b, &c, &d)) {
        b7 = b;
        c7 = c;
    }
    unsigned need1 = bit_AVX | bit_FMA | bit_F16C;
    unsigned need512 = bit_AVX512F | bit_AVX512BW | bit_AVX512DQ | bit_AVX512VL;
    *avx2 = (state & XCR0_AVX) == XCR0_AVX && (c1 & need1) == need1 && (b7 & bit_AVX2) && (b7 & bit_BMI2);
    *avx512 = *avx2 && (state & XCR0_AVX512) == XCR0_AVX512 && (b7 & need512) == need512 && (c7 & bit_AVX512VNNI);
}
#endif

#if defined(GGML_HAS_TIER_AVXVNNI)
enum { CPUID_7_1_AVX_VNNI = 1 << 4 };

static bool have_avxvnni(void) {
    unsigned a, b, c, d;
    return __get_cpuid_count(7, 1, &a, &b, &c, &d) && (a & CPUID_7_1_AVX_VNNI);
}
#endif

#if defined(GGML_HAS_TIER_DOTPROD)
#  if defined(__linux__)
#    include <sys/auxv.h>
#    if !defined(HWCAP_ASIMDDP)
#      define HWCAP_ASIMDDP (1 << 20)
#    endif
static bool have_dotprod(void) { return getauxval(AT_HWCAP) & HWCAP_ASIMDDP; }
#  elif defined(__APPLE__)
#    include <sys/sysctl.h>
static bool have_dotprod(void) {
    int has = 0;
    size_t size = sizeof has;
    return sysctlbyname("hw.optional.arm.FEAT_DotProd", &has, &size, NULL, 0) == 0 && has;
}
#  else
static bool have_dotprod(void) { return false; }
#  endif
#endif

#if defined(GGML_HAS_TIER_AMX)
#  include <sys/syscall.h>
#  include <unistd.h>

enum { CPUID_7_AMX_BF16 = 1 << 22, CPUID_7_AMX_TILE = 1 << 24, CPUID_7_1_AVX512_BF16 = 1 << 5, ARCH_REQ_XCOMP_PERM = 0x1023, XFEATURE_XTILEDATA = 18 };

static bool have_amx(void) {
    unsigned a, b, c, d;
    return (xcr0() & XCR0_AMX) == XCR0_AMX && __get_cpuid_count(7, 0, &a, &b, &c, &d) && (d & CPUID_7_AMX_BF16) && (d & CPUID_7_AMX_TILE) &&
           __get_cpuid_count(7, 1, &a, &b, &c, &d) && (a & CPUID_7_1_AVX512_BF16) && syscall(SYS_arch_prctl, ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA) == 0;
}
#endif

static pthread_once_t once = PTHREAD_ONCE_INIT;
static const struct cpu_kernels * tiers[6]; /* worst first */
static int n_tiers;
static char names[64];

static void detect(void) {
    tiers[n_tiers++] = &cpu_kernels_scalar;
#if defined(__x86_64__)
    int avx2, avx512;
    detect_x86(&avx2, &avx512);
#  if defined(GGML_HAS_TIER_AVX2)
    if (avx2) {
        tiers[n_tiers++] = &cpu_kernels_avx2;
    }
#  endif
#  if defined(GGML_HAS_TIER_AVXVNNI)
    if (avx2 && have_avxvnni()) {
        tiers[n_tiers++] = &cpu_kernels_avxvnni;
    }
#  endif
#  if defined(GGML_HAS_TIER_AVX512)
    if (avx512) {
        tiers[n_tiers++] = &cpu_kernels_avx512;
    }
#  endif
#  if defined(GGML_HAS_TIER_AMX)
    if (avx512 && have_amx()) {
        tiers[n_tiers++] = &cpu_kernels_amx;
    }
#  endif
#endif
#if defined(GGML_HAS_TIER_NEON)
    tiers[n_tiers++] = &cpu_kernels_neon; /* every 64-bit Arm has it */
#endif
#if defined(GGML_HAS_TIER_DOTPROD)
    if (have_dotprod()) {
        tiers[n_tiers++] = &cpu_kernels_dotprod;
    }
#endif
    for (int i = 0; i < n_tiers; i++) {
        size_t n = strlen(names);
        snprintf(names + n, sizeof names - n, "%s%s", i ? " " : "", tiers[i]->name);
    }
}

const char * ggml_cpu_tiers_available(void) {
    pthread_once(&once, detect);
    return names;
}

/* NULL: want names none. */
static const struct cpu_kernels * find(const char * want) {
    pthread_once(&once, detect);
    if (!want || !*want) {
        return tiers[n_tiers - 1];
    }
    for (int i = 0; i < n_tiers; i++) {
        if (strcmp(want, tiers[i]->name) == 0) {
            return tiers[i];
        }
    }
    return NULL;
}

const char * ggml_cpu_tier_default(void) {
    const struct cpu_kernels * kernels = find(getenv("QWENTTS_CPU_TIER"));
    return kernels ? kernels->name : NULL;
}

const struct cpu_kernels * cpu_tier_choose(void) {
    const char * want = getenv("QWENTTS_CPU_TIER");
    const struct cpu_kernels * kernels = find(want);
    if (!kernels) {
        ggml_log_internal(GGML_LOG_LEVEL_ERROR, "QWENTTS_CPU_TIER is '%s': this machine has %s", want, names);
    }
    return kernels;
}
