/* Why a thread of a pool parks, read only while the guard watches it: forced, when another thread of the
 * pool was off its core during the second half of the spin, or this one while it looked; else the step
 * itself made it wait too long. */
#ifndef ASSAY_POOL_USAGE_H
#define ASSAY_POOL_USAGE_H

#include "pool.h"

typedef struct {
    uint64_t now_ns;
    uint64_t others_ns; /* CPU time of the pool's other threads */
    int sound;          /* 1: all of it was read, without losing the core meanwhile */
} assay_pool_usage;

/* Notes the calling thread's CPU clock, which the others read. */
void assay_pool_note_clock(assay_thread *thread);
assay_pool_usage assay_pool_read_usage(const assay_walker *walker);
/* The same with `in_run`, on the step's path: the calls of the look itself are not the step's. */
assay_pool_usage assay_pool_look(const assay_walker *walker, int in_run);
/* 1 when all other threads were on their cores from one look to the next. */
int assay_pool_all_ran(const assay_pool *pool, const assay_pool_usage *from,
                       const assay_pool_usage *to);

#endif
