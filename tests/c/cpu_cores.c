/* cpu_cores.c - cores and quota that a tree of files in place of /sys and /proc describes: cpu_cores ROOT ALLOWED, ALLOWED such as 1101. */
#include <stdio.h>
#include <string.h>

#include "../../ggml/cpu/cpu_topology.h"

int main(int argc, char ** argv) {
    unsigned char allowed[64];
    if (argc != 3 || strlen(argv[2]) > sizeof allowed) {
        fprintf(stderr, "usage: cpu_cores ROOT ALLOWED\n");
        return 2;
    }
    int n = (int) strlen(argv[2]);
    for (int i = 0; i < n; i++) {
        allowed[i] = argv[2][i] == '1';
    }
    printf("%d %d\n", cpu_topology_cores(argv[1], allowed, n), cpu_quota_cores(argv[1]));
    return 0;
}
