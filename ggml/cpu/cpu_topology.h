/* cpu_topology.h - cores behind logical processors, as Linux describes them under root/sys (root "" is this machine; tests have trees of their own). */
#pragma once

/* How many cores are worth a thread each among n_cpus logical processors, of which allowed[i] != 0 may be used: hardware threads of one core count once, and
 * where cores differ only the fast ones count, if there are two or more. 0: the system does not say. */
int cpu_topology_cores(const char * root, const unsigned char * allowed, int n_cpus);
/* Cores, rounded up, that the CPU quota of this process's control group pays for; 0: no limit. */
int cpu_quota_cores(const char * root);
