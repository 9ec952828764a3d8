#define _GNU_SOURCE
#include "parts.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#ifndef SYS_close_range
#define SYS_close_range 436
#endif
#ifndef PR_GET_TID_ADDRESS
#define PR_GET_TID_ADDRESS 40
#endif
#define READINGS_MAX 16
#define LAST_CAPABILITY 63

/* ---- failures and clocks --------------------------------------------------------------------- */

/* End pid 1: the launcher gets the call that failed and why. */
_Noreturn void fail(int channel, const char *call) {
    char text[MESSAGE_BYTES];
    snprintf(text, sizeof text, "failed %s: %s", call, strerror(errno));
    send_message(channel, text, NULL, 0);
    _exit(1);
}

/* An instant and this process's counters at it: read again after a wait for a core between. */
struct edge edge_of_self(void) {
    struct edge edge = {0, reading_of("self")};
    for (int count = 0; count < READINGS_MAX; count++) {
        int64_t before_ns = edge.booked.delayed_ns;
        edge.at_ns = now_ns();
        edge.booked = reading_of("self");
        if (edge.booked.delayed_ns == before_ns) {
            break;
        }
    }
    return edge;
}

/* ---- processes ----------------------------------------------------------------------------- */

/* Fork without glibc's handlers, which are the interpreter's; updates its thread id. */
long raw_clone(unsigned long flags, int *pidfd) {
    int *tid = NULL;
    if (prctl(PR_GET_TID_ADDRESS, &tid, 0, 0, 0) == 0 && tid != NULL) {
        flags |= CLONE_CHILD_SETTID | CLONE_CHILD_CLEARTID;
    }
#if defined(__aarch64__)
    return syscall(SYS_clone, flags | SIGCHLD, NULL, pidfd, NULL, tid);
#else
    return syscall(SYS_clone, flags | SIGCHLD, NULL, pidfd, tid, NULL);
#endif
}

static int ascending(const void *one, const void *other) {
    return *(const int *)one - *(const int *)other;
}

/* Close every descriptor from 3 on, except those in `kept`; negative numbers are ignored. Sorts them. */
void close_all_but(int *kept, int count) {
    unsigned low = 3;
    qsort(kept, (size_t)count, sizeof *kept, ascending);
    for (int at = 0; at < count; at++) {
        if (kept[at] < 0) {
            continue;
        }
        if ((unsigned)kept[at] > low) {
            syscall(SYS_close_range, low, (unsigned)kept[at] - 1, 0);
        }
        low = (unsigned)kept[at] + 1;
    }
    syscall(SYS_close_range, low, ~0U, 0);
}

static int limit(int which, int64_t wanted) {
    struct rlimit now;
    if (wanted < 0) {
        errno = EINVAL;
        return -1;
    }
    if (getrlimit(which, &now) != 0) {
        return -1;
    }
    rlim_t value = (rlim_t)wanted;
    if (now.rlim_max != RLIM_INFINITY && now.rlim_max < value) {
        value = now.rlim_max;
    }
    now.rlim_cur = now.rlim_max = value;
    return setrlimit(which, &now);
}

int set_limits(const struct box_limits *limits, int64_t signals_pending_max) {
    int failed = limit(RLIMIT_CORE, 0) || limit(RLIMIT_CPU, limits->cpu_s) ||
                 limit(RLIMIT_FSIZE, limits->file_bytes) || limit(RLIMIT_NOFILE, limits->open_files) ||
                 limit(RLIMIT_STACK, limits->stack_bytes) || limit(RLIMIT_MEMLOCK, 0) ||
                 limit(RLIMIT_MSGQUEUE, 0) || limit(RLIMIT_SIGPENDING, signals_pending_max);
    if (!failed && limits->address_bytes) {
        failed = limit(RLIMIT_AS, limits->address_bytes);
    }
    if (!failed && limits->processes) {
        failed = limit(RLIMIT_NPROC, limits->processes);
    }
    return failed ? -1 : 0;
}

int drop_capabilities(void) {
    for (int capability = 0; capability <= LAST_CAPABILITY; capability++) {
        if (prctl(PR_CAPBSET_DROP, capability, 0, 0, 0) != 0) {
            break;
        }
    }
    prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
    struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
    struct __user_cap_data_struct nothing[2];
    memset(nothing, 0, sizeof nothing);
    return (int)syscall(SYS_capset, &header, nothing);
}

/* Make the out-of-memory killer prefer the program to pid 1; no effect without `/proc`. */
void be_first_out_of_memory(void) {
    prctl(PR_SET_DUMPABLE, 1, 0, 0, 0);
    int file = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
    if (file >= 0) {
        if (write(file, "1000", 4) < 0) {
            /* the kernel then chooses by size */
        }
        close(file);
    }
}

/* ---- the file system of a box -------------------------------------------------------------- */

/* Create the directories on the way to `path`, and `path` itself if `whole`. */
static int make_directories(const char *path, int whole) {
    char part[PATH_MAX_BYTES];
    size_t length = strlen(path);
    if (length >= sizeof part) {
        errno = ENAMETOOLONG;
        return -1;
    }
    for (size_t at = 1; at <= length; at++) {
        if (path[at] == '/' || (path[at] == 0 && whole)) {
            memcpy(part, path, at);
            part[at] = 0;
            if (mkdir(part, 0777) != 0 && errno != EEXIST) {
                return -1;
            }
        }
    }
    return 0;
}

void mount_scratch(int channel, const struct box_limits *limits, const char *covered) {
    char bounds[128];
    snprintf(bounds, sizeof bounds, "size=%lld,nr_inodes=%lld,mode=0755",
             (long long)limits->disk_bytes, (long long)limits->inodes + 4);
    if (mount("scratch", "/scratch", "tmpfs", MS_NOSUID | MS_NODEV, bounds) != 0) {
        fail(channel, "mount tmpfs on /scratch");
    }
    if (mkdir("/scratch/box", 0755) != 0 || mkdir("/scratch/tmp", 0755) != 0 ||
        mount("/scratch/box", "/box", NULL, MS_BIND, NULL) != 0 ||
        mount("/scratch/tmp", "/tmp", NULL, MS_BIND, NULL) != 0) {
        fail(channel, "mount of /box and /tmp");
    }
    while (*covered) {
        const char *target = covered + strlen(covered) + 1;
        if (make_directories(target, 1) != 0 ||
            mount(covered, target, NULL, MS_BIND | MS_REC, NULL) != 0) {
            fail(channel, target);
        }
        covered = target + strlen(target) + 1;
    }
}

const char *after(const char *text) { return text + strlen(text) + 1; }

static int write_all(int file, const char *content, uint64_t size) {
    while (size > 0) {
        ssize_t written = write(file, content, size);
        if (written < 0) {
            if (errno == EINTR) {
                continue;
            }
            return -1;
        }
        content += written;
        size -= (uint64_t)written;
    }
    return 0;
}

/* Create the run's files; the launcher has checked that the names are plain. */
void write_files(const struct run *run, const char *at) {
    for (uint32_t number = 0; number < run->request->files; number++) {
        uint32_t executable;
        uint64_t size;
        char path[PATH_MAX_BYTES];
        memcpy(&executable, at, sizeof executable);
        memcpy(&size, at + 8, sizeof size);
        const char *name = at + 16, *content = after(name);
        int length = snprintf(path, sizeof path, "/box/%s", name);
        if (length < 0 || (size_t)length >= sizeof path) {
            errno = ENAMETOOLONG;
            fail(run->channel, "files");
        }
        if (strchr(name, '/') && make_directories(path, 0) != 0) {
            fail(run->channel, path);
        }
        int file = open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
                        executable ? 0755 : 0644);
        if (file < 0 || write_all(file, content, size) != 0) {
            fail(run->channel, path);
        }
        close(file);
        at = content + size;
    }
}
