/* tiers.h - which kernel table this processor gets. */
#pragma once

#include "kernels.h"

/* The best tier this processor and its operating system run, or the one QWENTTS_CPU_TIER names; NULL, logged, when that is not one of them. */
const struct cpu_kernels * cpu_tier_choose(void);
