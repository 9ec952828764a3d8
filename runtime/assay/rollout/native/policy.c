#include "policy.h"

static size_t line_up(size_t n) { return (n + ASSAY_LINE - 1) / ASSAY_LINE * ASSAY_LINE; }

size_t assay_waiting_bytes(uint32_t slots) {
    size_t buckets = assay_pow2_at_least(slots);
    return line_up(slots * sizeof(assay_waiter)) + line_up(slots * sizeof(uint32_t)) +
           2 * line_up(buckets * sizeof(uint32_t));
}

void assay_waiting_init(assay_waiting *w, void *memory, uint32_t slots, uint32_t policy,
                        uint64_t aging_max) {
    uint8_t *cursor = memory;
    size_t buckets = assay_pow2_at_least(slots);
    memset(w, 0, sizeof *w);
    w->policy = policy;
    w->aging_max = aging_max;
    w->head = w->tail = ASSAY_NONE;
    w->bucket_mask = (uint32_t)buckets - 1;
    w->waiters = (assay_waiter *)(void *)cursor;
    cursor += line_up(slots * sizeof(assay_waiter));
    w->heap = (uint32_t *)(void *)cursor;
    cursor += line_up(slots * sizeof(uint32_t));
    w->bucket_head = (uint32_t *)(void *)cursor;
    w->bucket_tail = w->bucket_head + line_up(buckets * sizeof(uint32_t)) / sizeof(uint32_t);
    memset(w->bucket_head, 0xFF, buckets * sizeof(uint32_t));
    memset(w->bucket_tail, 0xFF, buckets * sizeof(uint32_t));
}

/* ---- heap by (remaining, ticket) -------------------------------------------------------------- */

static bool before(const assay_waiting *w, uint32_t a, uint32_t b) {
    const assay_waiter *x = &w->waiters[a], *y = &w->waiters[b];
    return x->remaining != y->remaining ? x->remaining < y->remaining : x->ticket < y->ticket;
}

static void heap_put(assay_waiting *w, uint32_t at, uint32_t slot) {
    w->heap[at] = slot;
    w->waiters[slot].heap_at = at;
}

static void sift_up(assay_waiting *w, uint32_t at) {
    uint32_t slot = w->heap[at];
    while (at && before(w, slot, w->heap[(at - 1) / 2])) {
        heap_put(w, at, w->heap[(at - 1) / 2]);
        at = (at - 1) / 2;
    }
    heap_put(w, at, slot);
}

static void sift_down(assay_waiting *w, uint32_t at, uint32_t n) {
    uint32_t slot = w->heap[at];
    for (uint32_t child; (child = 2 * at + 1) < n; at = child) {
        if (child + 1 < n && before(w, w->heap[child + 1], w->heap[child])) child++;
        if (!before(w, w->heap[child], slot)) break;
        heap_put(w, at, w->heap[child]);
    }
    heap_put(w, at, slot);
}

static void heap_remove(assay_waiting *w, uint32_t slot, uint32_t n_after) {
    uint32_t at = w->waiters[slot].heap_at, last = w->heap[n_after];
    if (last == slot) return;
    heap_put(w, at, last);
    sift_up(w, at);
    sift_down(w, w->waiters[last].heap_at, n_after);
}

/* ---- the two lists ---------------------------------------------------------------------------- */

static uint32_t bucket_of(const assay_waiting *w, uint64_t prefix) {
    return (uint32_t)(prefix ^ prefix >> 32) & w->bucket_mask;
}

static void append(assay_waiting *w, uint32_t slot) {
    assay_waiter *x = &w->waiters[slot];
    uint32_t bucket = bucket_of(w, x->prefix);
    x->next = x->same_next = ASSAY_NONE;
    x->prev = w->tail;
    x->same_prev = w->bucket_tail[bucket];
    *(w->tail != ASSAY_NONE ? &w->waiters[w->tail].next : &w->head) = slot;
    w->tail = slot;
    *(x->same_prev != ASSAY_NONE ? &w->waiters[x->same_prev].same_next
                                 : &w->bucket_head[bucket]) = slot;
    w->bucket_tail[bucket] = slot;
}

static void unlink_slot(assay_waiting *w, uint32_t slot) {
    assay_waiter *x = &w->waiters[slot];
    uint32_t bucket = bucket_of(w, x->prefix);
    *(x->prev != ASSAY_NONE ? &w->waiters[x->prev].next : &w->head) = x->next;
    *(x->next != ASSAY_NONE ? &w->waiters[x->next].prev : &w->tail) = x->prev;
    *(x->same_prev != ASSAY_NONE ? &w->waiters[x->same_prev].same_next
                                 : &w->bucket_head[bucket]) = x->same_next;
    *(x->same_next != ASSAY_NONE ? &w->waiters[x->same_next].same_prev
                                 : &w->bucket_tail[bucket]) = x->same_prev;
}

static void prepend(assay_waiting *w, uint32_t slot) {
    assay_waiter *x = &w->waiters[slot];
    uint32_t bucket = bucket_of(w, x->prefix);
    x->prev = x->same_prev = ASSAY_NONE;
    x->next = w->head;
    x->same_next = w->bucket_head[bucket];
    *(w->head != ASSAY_NONE ? &w->waiters[w->head].prev : &w->tail) = slot;
    w->head = slot;
    *(x->same_next != ASSAY_NONE ? &w->waiters[x->same_next].same_prev
                                 : &w->bucket_tail[bucket]) = slot;
    w->bucket_head[bucket] = slot;
}

/* ---- face ------------------------------------------------------------------------------------- */

static void add(assay_waiting *w, uint32_t slot, uint32_t remaining, uint64_t prefix) {
    assay_waiter *x = &w->waiters[slot];
    x->remaining = remaining;
    x->prefix = prefix;
    x->ticket = w->tickets++;
    x->arrived_at = w->admitted;
    w->heap[w->n] = slot;
    sift_up(w, w->n++);
}

void assay_waiting_add(assay_waiting *w, uint32_t slot, uint32_t remaining, uint64_t prefix) {
    add(w, slot, remaining, prefix);
    append(w, slot);
}

void assay_waiting_add_first(assay_waiting *w, uint32_t slot, uint32_t remaining,
                             uint64_t prefix) {
    add(w, slot, remaining, prefix);
    w->waiters[slot].arrived_at = w->admitted - w->aging_max; /* due at once */
    prepend(w, slot);
}

void assay_waiting_remove(assay_waiting *w, uint32_t slot) {
    unlink_slot(w, slot);
    heap_remove(w, slot, --w->n);
}

static uint32_t same_prefix(const assay_waiting *w) {
    uint32_t slot = w->bucket_head[bucket_of(w, w->last_prefix)];
    while (slot != ASSAY_NONE && w->waiters[slot].prefix != w->last_prefix)
        slot = w->waiters[slot].same_next;
    return slot;
}

static uint32_t preferred(const assay_waiting *w) {
    if (w->policy == ASSAY_SHORTEST_REMAINING) return w->heap[0];
    if (w->policy == ASSAY_PREFIX_SHARING) {
        uint32_t slot = same_prefix(w);
        if (slot != ASSAY_NONE) return slot;
    }
    return w->head;
}

uint32_t assay_waiting_pick(const assay_waiting *w) {
    if (w->n == 0) return ASSAY_NONE;
    bool due = w->admitted - w->waiters[w->head].arrived_at >= w->aging_max;
    return due ? w->head : preferred(w);
}

void assay_waiting_admit(assay_waiting *w, uint32_t slot) {
    w->aged += slot != preferred(w);
    w->last_prefix = w->waiters[slot].prefix;
    assay_waiting_remove(w, slot);
    w->admitted++;
}
