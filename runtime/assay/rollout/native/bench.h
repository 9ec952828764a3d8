/* Native parts of the benches, which run at the speed of the rings. Every figure is computed
 * from work that was done and checked; a lost or damaged descriptor makes the result zero. */
#ifndef ASSAY_BENCH_H
#define ASSAY_BENCH_H

#include "host.h"

/* Seconds for n sealed descriptors through one SPSC ring in batches, two pinned threads (-1: not). */
double assay_bench_ring(uint64_t n, uint64_t batch, uint64_t capacity, int32_t cpu_producer,
                        int32_t cpu_consumer);
/* The same through the MPMC queue, one at a time. */
double assay_bench_queue(uint64_t n, uint64_t capacity, int32_t cpu_producer, int32_t cpu_consumer);
/* Post -> consume of single descriptors, each posted when the one before was consumed. ns into out. */
bool assay_bench_latency(uint64_t n, int32_t cpu_producer, int32_t cpu_consumer, double *out);

typedef struct {
    uint64_t rollouts;    /* to run */
    uint32_t group;       /* K */
    uint32_t prompt_len;
    uint32_t max_tokens;  /* upper end; lengths are uniform from 1 when `vary` */
    uint32_t vary;        /* 1: random prompts, lengths and groups */
    uint32_t cancel_one_in; /* 0: no cancels */
    uint32_t want_reward;
    uint32_t prompts;     /* distinct prompts */
    int32_t cpu;          /* of the driving thread */
    uint64_t seed;
} assay_drive;

typedef struct {
    double seconds;
    uint64_t submitted, completed, cancelled, tokens;
    uint64_t full;      /* submissions that were refused because there was no room */
    uint64_t wrong;     /* rewards that are not the hash of the sequence */
} assay_driven;

/* Submit, poll and release from the calling thread until every rollout has come back. */
void assay_bench_drive(assay_host h, const assay_drive *drive, assay_driven *out);

enum assay_tax_mode {
    ASSAY_TAX_EVENTFD = 0, /* the host tells the worker about every step through eventfds */
    ASSAY_TAX_POLLING = 1, /* both sides spin on a shared word, every step */
    ASSAY_TAX_RING = 2,    /* a descriptor and a completion every step, spin then park */
    ASSAY_TAX_RESIDENT = 3 /* one descriptor for `steps_an_order` steps: the worker stays in its loop */
};

typedef struct {
    uint64_t steps;
    double seconds;
} assay_taxed;

/* Steps passed in at most `seconds`, with `hogs` threads that load the worker's CPU. */
void assay_bench_tax(uint32_t mode, int32_t cpu_host, int32_t cpu_worker, uint32_t hogs,
                     uint64_t steps_an_order, double seconds, assay_taxed *out);

/* Reads `bytes` from buffer with n_threads threads, n_times with prefetches into L1 and n_times with
 * prefetches into L2; returns seconds of the fastest pass. The memory-bandwidth limit that decoding is
 * measured against: with one kind alone it would be too low on some CPUs. */
double assay_read_sweep_seconds(const void *buffer, size_t bytes, uint32_t n_threads,
                                uint32_t n_times);

#endif
