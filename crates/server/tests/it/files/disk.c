/* Disk fault injection, preloaded with LD_PRELOAD in front of the C library.
 *
 * FAILING_DISK names a control file. While it exists, its first word selects the fault ("full": writes
 * fail with ENOSPC, "sync": fsync fails) and its second word a substring of the affected paths. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

static int fails(int fd, const char *what) {
    char told[256], link[64], path[4096];
    const char *name = getenv("FAILING_DISK");
    int kept = errno;
    int control = name ? open(name, O_RDONLY | O_CLOEXEC) : -1;
    ssize_t length = control < 0 ? -1 : read(control, told, sizeof told - 1);
    if (control >= 0) close(control);
    errno = kept;
    if (length <= 0) return 0;
    told[length] = 0;
    char *part = strchr(told, ' ');
    if (!part) return 0;
    *part++ = 0;
    if (strcmp(told, what) != 0) return 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    length = readlink(link, path, sizeof path - 1);
    errno = kept;
    if (length <= 0) return 0;
    path[length] = 0;
    return strstr(path, part) != NULL;
}

#define IN_FRONT_OF(name, error, what, result, given, passed)       \
    result name given {                                             \
        static result (*real) given;                                \
        if (!real) real = (result(*) given)dlsym(RTLD_NEXT, #name); \
        if (fails(fd, what)) {                                      \
            errno = error;                                          \
            return -1;                                              \
        }                                                           \
        return real passed;                                         \
    }

IN_FRONT_OF(write, ENOSPC, "full", ssize_t, (int fd, const void *from, size_t size), (fd, from, size))
IN_FRONT_OF(writev, ENOSPC, "full", ssize_t, (int fd, const struct iovec *from, int count), (fd, from, count))
IN_FRONT_OF(pwrite, ENOSPC, "full", ssize_t, (int fd, const void *from, size_t size, off_t at), (fd, from, size, at))
IN_FRONT_OF(pwrite64, ENOSPC, "full", ssize_t, (int fd, const void *from, size_t size, off64_t at), (fd, from, size, at))
IN_FRONT_OF(fsync, EIO, "sync", int, (int fd), (fd))
IN_FRONT_OF(fdatasync, EIO, "sync", int, (int fd), (fd))
