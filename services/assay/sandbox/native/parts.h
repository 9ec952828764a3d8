/* What a box's processes and the zygote share: reports, counters, limits, files. */
#ifndef ASSAY_BOX_PARTS_H
#define ASSAY_BOX_PARTS_H

#include "box.h"

#include <signal.h>
#include <stddef.h>
#include <sys/types.h>

#define PATH_MAX_BYTES 4096
#define MESSAGE_BYTES 1024
#define PROGRAM_PID 2  /* in its pid namespace, where pid 1 has started nothing else */
#define INIT_NUMBERS 4 /* of `start_apart` */

/* Hidden: no symbol of the interpreter may take the place of one of these. */
#pragma GCC visibility push(hidden)

/* A message in the making; what does not fit is cut off. */
struct line {
    size_t length;
    char text[MESSAGE_BYTES + 16];
};

struct reading {
    int64_t ran_ns, delayed_ns;
};

struct edge {
    int64_t at_ns;
    struct reading booked;
};

/* A request that was received. */
struct run {
    const struct box_request *request;
    const char *strings;
    size_t bytes;
    int descriptor, channel;
    int load; /* see `open_load` */
    int stdio[3];
    struct sigaction interrupt; /* of the program */
};

void send_message(int channel, const char *text, const int *descriptors, int count);
_Noreturn void fail(int channel, const char *call);
int64_t now_ns(void);
struct reading reading_of(const char *process);
struct edge edge_of_self(void);
void add_text(struct line *line, const char *text);
void add_number(struct line *line, int64_t number);
int64_t number_in(const char *text, int skipped);
void report_start(int channel, int reader);
void await_program(int channel, pid_t program, int load);
long raw_clone(unsigned long flags, int *pidfd);
void close_all_but(int *kept, int count);
int set_limits(const struct box_limits *limits, int64_t signals_pending_max);
int drop_capabilities(void);
void be_first_out_of_memory(void);
void mount_scratch(int channel, const struct box_limits *limits, const char *covered);
const char *after(const char *text);
void write_files(const struct run *run, const char *at);

/* Start the program's process in this memory, and let this process execute `init` with descriptors:
 * the channel, the pipe's reader, the file of `open_load` or -1, and where it says that it has gone.
 * Returns 0 in the program's process, -errno if there is none. */
long start_apart(int init, const int *numbers);
/* In the program's process: wait until pid 1 has left this memory; -1 if it did not. */
int await_parting(int go);
int be_box(const struct box_zygote *zygote, int channel, struct box_result *result);

#pragma GCC visibility pop

#endif
