/* What a box's processes and the zygote share: reports, counters, limits, files. */
#ifndef ASSAY_BOX_PARTS_H
#define ASSAY_BOX_PARTS_H

#include "box.h"

#include <signal.h>
#include <stddef.h>
#include <sys/time.h>

#define PATH_MAX_BYTES 4096
#define MESSAGE_BYTES 1024

/* Hidden: no symbol of the interpreter may take the place of one of these. */
#pragma GCC visibility push(hidden)

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
    int load; /* see `last_task` */
    int stdio[3];
    struct sigaction interrupt; /* of the program */
};

void send_message(int channel, const char *text, const int *descriptors, int count);
_Noreturn void fail(int channel, const char *call);
int64_t now_ns(void);
struct reading reading_of(const char *process);
struct edge edge_of_self(void);
int64_t ns_of(struct timeval time);
long raw_clone(unsigned long flags, int *pidfd);
void close_all_but(int *kept, int count);
int set_limits(const struct box_limits *limits, int64_t signals_pending_max);
int drop_capabilities(void);
void be_first_out_of_memory(void);
void mount_scratch(int channel, const struct box_limits *limits, const char *covered);
const char *after(const char *text);
void write_files(const struct run *run, const char *at);
int be_box(const struct box_zygote *zygote, int channel, struct box_result *result);

#pragma GCC visibility pop

#endif
