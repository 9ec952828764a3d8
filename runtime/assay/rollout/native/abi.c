/* Sizes of the structures that Python mirrors. */
#include "engine.h"
#include "guard.h"
#include "probe.h"
#include "runtime.h"

/* In the order of SIZED in assay/rollout/layout. Returns how many; writes at most n. */
uint32_t assay_abi_sizes(uint64_t *out, uint32_t n);

uint32_t assay_abi_sizes(uint64_t *out, uint32_t n) {
    const uint64_t sizes[] = {
        sizeof(assay_descriptor), sizeof(assay_completion),       sizeof(assay_sampler),
        sizeof(assay_rollout),    sizeof(assay_credit),           sizeof(assay_ring),
        sizeof(assay_queue),      sizeof(assay_shape),            sizeof(assay_region),
        sizeof(assay_order),      sizeof(assay_member),           sizeof(assay_ref),
        sizeof(assay_worker_settings), sizeof(assay_runtime_settings), sizeof(assay_engine_ops),
        sizeof(assay_probe),      sizeof(assay_trace_record),     sizeof(assay_guard_report),
        sizeof(assay_stats),      sizeof(assay_model_shape),      sizeof(assay_engine_settings),
        sizeof(assay_engine_info), sizeof(assay_seq_step),        sizeof(assay_piece),
        sizeof(assay_asked),      sizeof(assay_adapter_piece),
    };
    const uint32_t count = sizeof sizes / sizeof *sizes;
    for (uint32_t i = 0; i < count && i < n; i++) out[i] = sizes[i];
    return count;
}

/* The inline operations of assay_ring.h, for callers without a C compiler: the
 * differential tests and the reference interpreter's harness. */
uint64_t assay_ring_push_n(assay_ring *r, const assay_descriptor *d, uint64_t n);
uint64_t assay_ring_pop_n(assay_ring *r, assay_descriptor *out, uint64_t n);
void assay_ring_init_at(assay_ring *r, uint64_t capacity, uint64_t start);
uint64_t assay_ring_bytes_of(uint64_t capacity);
int assay_queue_push_one(assay_queue *q, const assay_descriptor *d);
int assay_queue_pop_one(assay_queue *q, assay_descriptor *out);
void assay_queue_init_at(assay_queue *q, uint64_t capacity, uint64_t start);
uint64_t assay_queue_bytes_of(uint64_t capacity);
int assay_transition_try(assay_rollout *row, uint32_t generation, int from, int to);
int assay_credit_try(assay_credit *c, int64_t n);
void assay_seal_line(void *line);

uint64_t assay_ring_push_n(assay_ring *r, const assay_descriptor *d, uint64_t n) {
    return assay_ring_push(r, d, n);
}
uint64_t assay_ring_pop_n(assay_ring *r, assay_descriptor *out, uint64_t n) {
    return assay_ring_pop(r, out, n);
}
void assay_ring_init_at(assay_ring *r, uint64_t capacity, uint64_t start) {
    assay_ring_init(r, capacity, start);
}
uint64_t assay_ring_bytes_of(uint64_t capacity) { return assay_ring_bytes(capacity); }
int assay_queue_push_one(assay_queue *q, const assay_descriptor *d) {
    return assay_queue_push(q, d);
}
int assay_queue_pop_one(assay_queue *q, assay_descriptor *out) { return assay_queue_pop(q, out); }
void assay_queue_init_at(assay_queue *q, uint64_t capacity, uint64_t start) {
    assay_queue_init(q, capacity, start);
}
uint64_t assay_queue_bytes_of(uint64_t capacity) { return assay_queue_bytes(capacity); }
int assay_transition_try(assay_rollout *row, uint32_t generation, int from, int to) {
    if (from < 0 || from >= ASSAY_STATES || to < 0 || to >= ASSAY_STATES) return 0;
    return assay_transition(row, generation, (enum assay_state)from, (enum assay_state)to);
}
int assay_credit_try(assay_credit *c, int64_t n) { return assay_credit_take(c, n); }
void assay_seal_line(void *line) { assay_seal(line); }

void assay_credit_init_at(assay_credit *c, int64_t limit);
void assay_credit_give_back(assay_credit *c, int64_t n);

void assay_credit_init_at(assay_credit *c, int64_t limit) { assay_credit_init(c, limit); }
void assay_credit_give_back(assay_credit *c, int64_t n) { assay_credit_give(c, n); }
