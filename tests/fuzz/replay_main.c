/* replay_main.c - run a fuzz target over files, without libFuzzer: the corpus and every finding of the past, in the default test suite.
 * usage: replay_NAME FILE_OR_FOLDER...    A finding ends the process, as it did in the fuzzer; else the number of files is printed. */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t * data, size_t size);

static int run_file(const char * path) {
    FILE * f = fopen(path, "rb");
    long size = f && fseek(f, 0, SEEK_END) == 0 ? ftell(f) : -1;
    uint8_t * data = size >= 0 ? malloc((size_t) size + !size) : NULL;
    if (!data || fseek(f, 0, SEEK_SET) != 0 || fread(data, 1, (size_t) size, f) != (size_t) size) {
        perror(path);
        exit(2);
    }
    fclose(f);
    fprintf(stderr, "%s\n", path); /* the last line names the file that ended the process */
    LLVMFuzzerTestOneInput(data, (size_t) size);
    free(data);
    return 1;
}

static int run(const char * path) {
    DIR * folder = opendir(path);
    if (!folder) {
        return run_file(path);
    }
    int n = 0;
    for (struct dirent * entry; (entry = readdir(folder));) {
        char inside[4096];
        snprintf(inside, sizeof inside, "%s/%s", path, entry->d_name);
        n += entry->d_name[0] == '.' ? 0 : run_file(inside);
    }
    closedir(folder);
    return n;
}

int main(int argc, char ** argv) {
    int n = 0;
    for (int i = 1; i < argc; i++) {
        n += run(argv[i]);
    }
    printf("%s: %d files, 0 failures\n", argv[0], n);
    return n == 0;
}
