/* Boxes in C: the zygote's fork of a box, and pid 1 of the box until its program has ended.
 *
 * Pid 1 stays in this code, so that it touches few of the interpreter's pages; only the program
 * (and a harness, which is Python) returns to the interpreter. The Python modules of
 * `assay.sandbox.box` do the same where this library is missing; one test suite checks both.
 */
#ifndef ASSAY_BOX_H
#define ASSAY_BOX_H

#include <stdint.h>

#define BOX_ABI 2
#define BOX_MAGIC 0x41425831u /* request.py */
#define BOX_DESCRIPTORS_MAX 64

enum box_kind { KIND_PYTHON = 0, KIND_COMMAND = 1, KIND_OTHER = 2 };

enum box_role {
    ROLE_ZYGOTE = 0,  /* the box was forked */
    ROLE_PROGRAM = 1, /* in the program's process, ready to run Python */
    ROLE_HEAD = 2,    /* in pid 1, for what only Python can do: the request was received */
    ROLE_END = 3,     /* in pid 1: the launcher closed the socket */
};

/* Limits of a process or of the scratch file system; the order of `request.py`. */
struct box_limits {
    int64_t cpu_s, file_bytes, disk_bytes, inodes, open_files, stack_bytes, address_bytes, processes;
};

/* Beginning of a request. The strings follow: arguments, variables, then files as
 * (executable: u32, unused: u32, size: u64, name, NUL, content). */
struct box_request {
    uint32_t magic, kind, special, arguments, variables, files;
    uint64_t python_at; /* where the part for Python begins */
    struct box_limits limits;
};

/* What a zygote's boxes have in common. */
struct box_zygote {
    uint64_t flags;         /* of clone */
    int32_t user, outside;  /* uid and gid inside, and those they are mapped to */
    int32_t control;        /* socket to the launcher */
    int32_t home;           /* the zygote's own network namespace */
    const void *filter;     /* struct sock_fprog */
    const char *covered;    /* pairs of source and target to bind again, ended by an empty string */
    int64_t signals_pending_max;
};

/* The result of `assay_box_spawn` in the process in which it returns. */
struct box_result {
    int32_t pid, pidfd;        /* ROLE_ZYGOTE */
    int32_t channel;           /* ROLE_HEAD: socket to the launcher */
    int32_t request;           /* ROLE_PROGRAM: descriptor of the request */
    int32_t count;             /* ROLE_HEAD: number of descriptors received */
    int32_t descriptors[BOX_DESCRIPTORS_MAX];
    char failure[128];         /* the call that failed, with a negative result */
};

int assay_box_abi(void);

/* Fork a box and hand it to the launcher. `network` is a descriptor of the network namespace that it
 * gets, or -1: `flags` creates one. `others` are descriptors that the box must not keep.
 * Returns an `enum box_role`, or -errno in the zygote. */
int assay_box_spawn(const struct box_zygote *zygote, int32_t network, const int32_t *others,
                    int32_t others_count, struct box_result *result);

/* Create an empty network namespace that belongs to the zygote, not to a box. Returns a descriptor,
 * or -errno. */
int assay_box_network(const struct box_zygote *zygote);

/* Whether no socket of any kind exists in a network namespace, by the kernel's own count. */
int assay_box_network_is_unused(const struct box_zygote *zygote, int32_t network);

#endif
