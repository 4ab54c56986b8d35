/* mapped_file.c - mapped_file.h over POSIX mmap. Pages are shared between processes that map the same file and can be dropped under pressure. */
#include "mapped_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static bool fail(int fd, const char * path, const char * what, int code, char * error, size_t error_size) {
    snprintf(error, error_size, "%s: %s%s%s", path, what, code ? ": " : "", code ? strerror(code) : "");
    if (fd >= 0) {
        close(fd);
    }
    return false;
}

static void change_time(const struct stat * st, int64_t * s, int64_t * ns) {
#if defined(__APPLE__)
    *s = st->st_mtimespec.tv_sec;
    *ns = st->st_mtimespec.tv_nsec;
#else
    *s = st->st_mtim.tv_sec;
    *ns = st->st_mtim.tv_nsec;
#endif
}

bool mapped_file_open(struct mapped_file * file, const char * path, char * error, size_t error_size) {
    *file = (struct mapped_file) { .fd = -1 };
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* a pipe without a writer must not block: it is refused below */
    if (fd < 0) {
        return fail(fd, path, "cannot be opened", errno, error, error_size);
    }
    struct stat st;
    if (fstat(fd, &st) != 0) {
        return fail(fd, path, "cannot be examined", errno, error, error_size);
    }
    if (!S_ISREG(st.st_mode)) {
        return fail(fd, path, S_ISDIR(st.st_mode) ? "is a directory, expected a file" : "is not a regular file", 0, error, error_size);
    }
    if ((uintmax_t) st.st_size > SIZE_MAX) {
        return fail(fd, path, "is larger than the address space", 0, error, error_size);
    }
    if (st.st_size > 0) {
        void * data = mmap(NULL, (size_t) st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
        if (data == MAP_FAILED) {
            return fail(fd, path, "cannot be mapped", errno, error, error_size);
        }
        *file = (struct mapped_file) { .data = data, .size_bytes = (size_t) st.st_size, .fd = fd };
        change_time(&st, &file->changed_s, &file->changed_ns);
    } else {
        close(fd);
    }
    return true;
}

bool mapped_file_check(const struct mapped_file * file, char * error, size_t error_size) {
    struct stat st;
    int64_t s, ns;
    if (!file->data) {
        return true;
    }
    if (fstat(file->fd, &st) != 0) {
        snprintf(error, error_size, "the open file cannot be examined: %s", strerror(errno));
        return false;
    }
    if ((uintmax_t) st.st_size != file->size_bytes) {
        snprintf(error, error_size, "the file has %jd bytes, it was opened with %zu: it was written to and must be loaded again", (intmax_t) st.st_size,
                 file->size_bytes);
        return false;
    }
    change_time(&st, &s, &ns);
    if (s != file->changed_s || ns != file->changed_ns) {
        snprintf(error, error_size, "the file was written to after it was opened: it must be loaded again");
        return false;
    }
    return true;
}

void mapped_file_close(struct mapped_file * file) {
    if (file->data) {
        munmap((void *) file->data, file->size_bytes);
        close(file->fd);
    }
    *file = (struct mapped_file) { .fd = -1 };
}
