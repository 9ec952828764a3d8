#define _GNU_SOURCE
#include "box.h"
#include "parts.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/magic.h>
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
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define EXIT_NOT_RUN 126
#define EXIT_NOT_FOUND 127

/* ---- the program's process ------------------------------------------------------------------- */

/* Report to pid 1 that the program cannot begin. */
static _Noreturn void cannot_begin(int writer, const char *call) {
    char text[MESSAGE_BYTES];
    int length = snprintf(text, sizeof text, "%s: %s", call, strerror(errno));
    if (write(writer, text, (size_t)length) < 0) {
        /* pid 1 sees that there was no first line, or the exit code */
    }
    _exit(EXIT_NOT_RUN);
}

/* Everything before the program itself.
 *
 * `kept`: its descriptor beside 0, 1, 2 and `writer`, or -1. `go`: where pid 1 says that it no longer
 * shares this memory, or -1 if it never did; until then nothing here may run that is not ours. */
static void confine(const struct box_zygote *zygote, const struct run *run, int writer, int kept,
                    int go) {
    char first[160];
    struct edge began = edge_of_self();
    int length = snprintf(first, sizeof first, "%lld %lld %lld 0 1\n", (long long)began.at_ns,
                          (long long)began.booked.ran_ns, (long long)began.booked.delayed_ns);
    if (write(writer, first, (size_t)length) != length) {
        _exit(EXIT_NOT_RUN);
    }
    sigaction(SIGINT, &run->interrupt, NULL);
    setsid();
    for (int number = 0; number < 3; number++) {
        if (dup2(run->stdio[number], number) < 0) {
            cannot_begin(writer, "dup2");
        }
    }
    close_all_but((int[]){kept, writer, go}, 3);
    if (chdir("/box") != 0) {
        cannot_begin(writer, "chdir");
    }
    if (set_limits(&run->request->limits, zygote->signals_pending_max) != 0) {
        cannot_begin(writer, "setrlimit");
    }
    if (go >= 0 && await_parting(go) != 0) {
        cannot_begin(writer, "pid 1");
    }
    be_first_out_of_memory();
    if (drop_capabilities() != 0) {
        cannot_begin(writer, "capset");
    }
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) {
        cannot_begin(writer, "PR_SET_NO_NEW_PRIVS");
    }
    if (prctl(PR_SET_SECCOMP, 2, zygote->filter, 0, 0) != 0) {
        cannot_begin(writer, "PR_SET_SECCOMP");
    }
}

/* Execute `file` as found in the variable PATH; returns only if there is none. */
static void execute_by_path(const char *file, char **arguments, char **variables) {
    const char *path = "/bin:/usr/bin";
    char candidate[PATH_MAX_BYTES];
    int saved = ENOENT;
    for (char **variable = variables; *variable; variable++) {
        if (strncmp(*variable, "PATH=", 5) == 0) {
            path = *variable + 5;
        }
    }
    if (strchr(file, '/')) {
        execve(file, arguments, variables);
        return;
    }
    for (;;) {
        const char *end = strchrnul(path, ':');
        int length = snprintf(candidate, sizeof candidate, "%.*s%s%s", (int)(end - path), path,
                              end > path ? "/" : "", file);
        if (length > 0 && (size_t)length < sizeof candidate) {
            execve(candidate, arguments, variables);
            if (errno != ENOENT && errno != ENOTDIR && saved == ENOENT) {
                saved = errno;
            }
        }
        if (!*end) {
            break;
        }
        path = end + 1;
    }
    errno = saved;
}

/* Replace this process by the program; exit code 127 if there is none, as in a shell. */
static _Noreturn void execute(const struct run *run) {
    uint32_t arguments = run->request->arguments, variables = run->request->variables;
    char **words = calloc((size_t)arguments + variables + 2, sizeof *words);
    const char *at = run->strings;
    if (words == NULL || arguments == 0) {
        _exit(EXIT_NOT_RUN);
    }
    for (uint32_t number = 0; number < arguments + variables; number++) {
        /* One empty place ends the arguments, the last one the variables. */
        words[number + (number >= arguments)] = (char *)at;
        at = after(at);
    }
    signal(SIGPIPE, SIG_DFL);
    signal(SIGXFSZ, SIG_DFL);
    execute_by_path(words[0], words, words + arguments + 1);
    char text[MESSAGE_BYTES];
    int length = snprintf(text, sizeof text, "%s: %s\n", words[0], strerror(errno));
    if (write(2, text, (size_t)length < sizeof text ? (size_t)length : sizeof text - 1) < 0) {
        /* the exit code says it too */
    }
    _exit(EXIT_NOT_FOUND);
}

/* ---- pid 1 ------------------------------------------------------------------------------------ */

/* Create the program's process: 0 in it, otherwise in pid 1, which has gone if it has `init`. */
static long fork_program(const struct box_zygote *zygote, const struct run *run, int reader, int *go) {
    int ends[2];
    if (zygote->init < 0) {
        return raw_clone(0, NULL);
    }
    if (pipe2(ends, O_CLOEXEC) != 0) {
        return -1;
    }
    *go = ends[0];
    long program = start_apart(zygote->init, (int[]){run->channel, reader, run->load, ends[1]});
    errno = (int)-program;
    return program;
}

/* Start the program. Returns only in its process, and only to run Python. */
static void start(const struct box_zygote *zygote, struct run *run) {
    int pipes[2], go = -1;
    struct sigaction ignore = {.sa_handler = SIG_IGN};
    /* Pid 1 gets the signals for which it has a handler, and Python has one for this signal. */
    if (pipe2(pipes, O_CLOEXEC) != 0 || sigaction(SIGINT, &ignore, &run->interrupt) != 0) {
        fail(run->channel, "pipe");
    }
    int is_python = run->request->kind == KIND_PYTHON;
    long program = fork_program(zygote, run, pipes[0], &go);
    if (program < 0) {
        fail(run->channel, "clone");
    }
    if (program == 0) {
        confine(zygote, run, pipes[1], is_python ? run->descriptor : -1, go);
        if (!is_python) {
            execute(run);
        }
        close(pipes[1]);
        munmap((void *)run->request, run->bytes);
        return;
    }
    close_all_but((int[]){run->channel, pipes[0], run->load}, 3);
    report_start(run->channel, pipes[0]);
    await_program(run->channel, (pid_t)program, run->load);
    _exit(0);
}

/* Receive one message with descriptors; returns its bytes, 0 if the launcher closed the socket. */
static ssize_t receive(int channel, int *descriptors, int *count) {
    char byte;
    struct iovec part = {&byte, 1};
    char control[CMSG_SPACE(BOX_DESCRIPTORS_MAX * sizeof(int))];
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = control,
                             .msg_controllen = sizeof control};
    ssize_t got;
    while ((got = recvmsg(channel, &message, 0)) < 0 && errno == EINTR) {
    }
    *count = 0;
    struct cmsghdr *head = got > 0 ? CMSG_FIRSTHDR(&message) : NULL;
    if (head && head->cmsg_level == SOL_SOCKET && head->cmsg_type == SCM_RIGHTS) {
        *count = (int)((head->cmsg_len - CMSG_LEN(0)) / sizeof(int));
        memcpy(descriptors, CMSG_DATA(head), (size_t)*count * sizeof(int));
    }
    return got < 0 ? 0 : got;
}

/* Open the file that names the task last started, while it can be seen; -1 if it is not the kernel's
 * own. */
static int open_load(void) {
    struct statfs about;
    int load = open("/proc/loadavg", O_RDONLY | O_CLOEXEC);
    if (load >= 0 && (fstatfs(load, &about) != 0 || about.f_type != PROC_SUPER_MAGIC)) {
        close(load);
        load = -1;
    }
    return load;
}

/* Give root up, and take the box's own name and `/proc`. */
static void set_up(const struct box_zygote *zygote, int channel) {
    uid_t user = (uid_t)zygote->user;
    if (setresgid(user, user, user) != 0 || setresuid(user, user, user) != 0 ||
        prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) != 0 || prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) != 0) {
        fail(channel, "setresuid");
    }
    if (sethostname("box", 3) != 0) {
        fail(channel, "sethostname");
    }
    /* `subset=pid` omits what tells of the machine, `hidepid` the processes that one cannot trace. */
    if (mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC,
              "subset=pid,hidepid=invisible") != 0) {
        fail(channel, "mount proc");
    }
}

/* Map the request; the launcher sealed it. */
static void map_request(struct run *run, int descriptor) {
    struct stat about;
    if (fstat(descriptor, &about) != 0 || (size_t)about.st_size < sizeof *run->request) {
        fail(run->channel, "request");
    }
    void *at = mmap(NULL, (size_t)about.st_size, PROT_READ, MAP_PRIVATE, descriptor, 0);
    if (at == MAP_FAILED) {
        fail(run->channel, "mmap of the request");
    }
    run->request = at;
    run->strings = (const char *)at + sizeof *run->request;
    run->bytes = (size_t)about.st_size;
    run->descriptor = descriptor;
    if (run->request->magic != BOX_MAGIC) {
        errno = EPROTO;
        fail(run->channel, "request");
    }
}

/* Be pid 1 of a box; returns for what only Python can do. */
int be_box(const struct box_zygote *zygote, int channel, struct box_result *result) {
    struct run run = {.channel = channel};
    int none;
    setsid();
    if (receive(channel, result->descriptors, &none) == 0) {
        return ROLE_END;
    }
    run.load = open_load();
    set_up(zygote, channel);
    if (receive(channel, result->descriptors, &result->count) == 0) {
        return ROLE_END;
    }
    if (result->count < 4) {
        errno = EPROTO;
        fail(channel, "request");
    }
    map_request(&run, result->descriptors[0]);
    if (run.request->kind == KIND_OTHER) {
        munmap((void *)run.request, run.bytes);
        if (zygote->init >= 0) {
            close(zygote->init);
        }
        if (run.load >= 0) {
            close(run.load);
        }
        result->channel = channel;
        return ROLE_HEAD;
    }
    memcpy(run.stdio, result->descriptors + 1, sizeof run.stdio);
    for (int at = 4 + (int)run.request->special; at < result->count; at++) {
        if (write(result->descriptors[at], "0", 1) != 1) {
            fail(channel, "join of the cgroup");
        }
        close(result->descriptors[at]);
    }
    if (unshare(CLONE_NEWCGROUP) != 0) {
        fail(channel, "unshare");
    }
    mount_scratch(channel, &run.request->limits, zygote->covered);
    const char *files = run.strings;
    for (uint32_t word = run.request->arguments + run.request->variables; word > 0; word--) {
        files = after(files);
    }
    write_files(&run, files);
    start(zygote, &run);
    result->request = run.descriptor;
    return ROLE_PROGRAM;
}
