/* Boxes in C: the zygote's fork of a box, and pid 1 of the box until its program has ended.
 *
 * Pid 1 stays in this code, so that it touches few of the interpreter's pages; only the program
 * (and a harness, which is Python) returns to the interpreter. The Python modules of
 * `assay.sandbox.box` do the same where this library is missing; one test suite checks both.
 */
#ifndef ASSAY_BOX_H
#define ASSAY_BOX_H

#include <stdint.h>

#define BOX_ABI 5
#define BOX_MAGIC 0x41425831u /* request.py */
#define BOX_DESCRIPTORS_MAX 64

enum box_kind { KIND_PYTHON = 0, KIND_COMMAND = 1, KIND_OTHER = 2 };

enum box_role {
    ROLE_ZYGOTE = 0,  /* in the zygote: no more boxes are wanted */
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
    int32_t init;           /* of `assay_box_init` */
    const void *filter;     /* struct sock_fprog */
    const char *covered;    /* pairs of source and target to bind again, ended by an empty string */
    int64_t signals_pending_max;
};

/* The result of `assay_box_serve` in the process in which it returns. */
struct box_result {
    int32_t channel;           /* ROLE_HEAD: socket to the launcher */
    int32_t request;           /* ROLE_PROGRAM: descriptor of the request */
    int32_t count;             /* ROLE_HEAD: number of descriptors received */
    int32_t descriptors[BOX_DESCRIPTORS_MAX];
    char failure[128];         /* the call that failed, with a negative result */
};

int assay_box_abi(void);

/* A descriptor of the program that pid 1 becomes once its box is set up; -1 if this host does not let
 * it be executed: pid 1 then stays a fork of the zygote, at a higher cost. */
int assay_box_init(void);

/* Make one region of this process's libraries and of the memory between them, so that a fork is
 * cheaper; only while no other thread runs. Returns by how many regions there are fewer. */
int assay_box_gather(void);

/* Fork a box for every message on `control` and hand it to the launcher, until that closes; reap the
 * boxes. The zygote does not run Python meanwhile: each box would have to copy what it writes.
 * Returns an `enum box_role` in a box; in the zygote `ROLE_ZYGOTE` after the last message, or -errno
 * if no box can be forked. */
int assay_box_serve(const struct box_zygote *zygote, struct box_result *result);

#endif
