/* The header of the rollout runtime's shared memory: descriptor, completion, rings, rollout
 * table, transition table, credits. The C worker, the Python reference interpreter and device
 * kernels follow this file.
 *
 * Invariants:
 *   - a descriptor is 64 bytes, one cache line, and names its rollout by (slot, generation): no
 *     pointer crosses a ring, and a reused slot is never mistaken for its earlier rollout;
 *   - indices are free-running 64-bit counters, compared for equality or by difference;
 *   - an index is stored by one side only, with release, and read by the other with acquire;
 *     a side reads its own index relaxed;
 *   - a slot is filled before the index that publishes it moves (the publish IS the doorbell);
 *   - a full ring refuses; nothing is dropped.
 *
 * Units: counts are entries unless the name says otherwise; `_ns` is nanoseconds of CLOCK_MONOTONIC.
 */
#ifndef ASSAY_RING_H
#define ASSAY_RING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "assay_seam.h"

#if defined(__cplusplus) /* also NVRTC: no array designators, no flexible arrays */
#define ASSAY_ATOMIC(type) type
#define ASSAY_ALIGNED alignas(64)
#define ASSAY_AFTER(state)
#define ASSAY_TRAILING(declaration)
#else
#include <stdalign.h>
#include <stdatomic.h>
#define ASSAY_ATOMIC(type) _Atomic(type)
#define ASSAY_ALIGNED alignas(64)
#define ASSAY_AFTER(state) [state] =
#define ASSAY_TRAILING(declaration) ASSAY_ALIGNED declaration;
#endif

#define ASSAY_LINE 64u
#define ASSAY_STOP_IDS_MAX 8u
#define ASSAY_STOP_BYTES_MAX 48u
#define ASSAY_STOP_STRINGS_MAX 4u

/* ---- states ------------------------------------------------------------------------------- */

enum assay_state {
    ASSAY_FREE = 0,
    ASSAY_PREFILL_READY = 1,
    ASSAY_DECODING = 2,
    ASSAY_REWARD_PENDING = 3,
    ASSAY_TRAJECTORY_READY = 4,
    ASSAY_DONE = 5,
    ASSAY_STATES = 6
};

/* Row: state now, in the order of the states; bit n set: state n may follow. */
static const uint8_t ASSAY_TRANSITIONS[ASSAY_STATES] = {
    ASSAY_AFTER(ASSAY_FREE) 1u << ASSAY_PREFILL_READY,
    ASSAY_AFTER(ASSAY_PREFILL_READY) 1u << ASSAY_DECODING | 1u << ASSAY_DONE,
    ASSAY_AFTER(ASSAY_DECODING) 1u << ASSAY_REWARD_PENDING | 1u << ASSAY_DONE,
    ASSAY_AFTER(ASSAY_REWARD_PENDING) 1u << ASSAY_TRAJECTORY_READY | 1u << ASSAY_DONE,
    ASSAY_AFTER(ASSAY_TRAJECTORY_READY) 1u << ASSAY_DONE,
    ASSAY_AFTER(ASSAY_DONE) 1u << ASSAY_FREE,
};

/* How a rollout ended: exactly one of these, once it is DONE. */
enum assay_outcome {
    ASSAY_OUTCOME_NONE = 0,
    ASSAY_COMPLETED = 1, /* decoded to a stop condition, scored if a reward was requested */
    ASSAY_CANCELLED = 2,
    ASSAY_CRASHED = 3,   /* its worker failed before it was done */
    ASSAY_NOT_FINITE = 4 /* the model gave no finite distribution to sample from */
};

/* Why decoding ended. */
enum assay_stop {
    ASSAY_STOP_NONE = 0,
    ASSAY_STOP_LENGTH = 1,
    ASSAY_STOP_ID = 2,
    ASSAY_STOP_STRING = 3
};

enum assay_kind {
    ASSAY_KIND_FREE = 1,
    ASSAY_KIND_PREFILL = 2,
    ASSAY_KIND_DECODE = 3,
    ASSAY_KIND_REWARD = 4,
    ASSAY_KIND_TRAJECTORY = 5,
    ASSAY_KIND_DONE = 6,
    ASSAY_KIND_CANCEL = 7
};

enum assay_flag {
    ASSAY_FLAG_NO_REWARD = 1u << 0 /* pass through the reward stage unscored */
};

/* Credits a rollout holds right now; a bit is set by the thread that took the credit. */
enum assay_hold {
    ASSAY_HOLD_DECODE = 1u << 0,
    ASSAY_HOLD_REWARD = 1u << 1,
    ASSAY_HOLD_TRAJECTORY = 1u << 2
};

/* ---- descriptor and completion: one cache line each ----------------------------------------- */

typedef struct {
    uint32_t slot;
    uint32_t generation;
    uint16_t kind;  /* enum assay_kind */
    uint16_t flags; /* enum assay_flag */
    uint32_t seq_len;    /* tokens in the slot's sequence: prompt and generated */
    uint32_t max_tokens; /* generated tokens at most */
    uint32_t kv;         /* KV blocks reserved for the rollout */
    uint64_t prefix;     /* hash of the shareable prompt; equal prompts, equal value */
    uint64_t reward_id;  /* the caller's id of the reward request */
    uint64_t posted;     /* clock ticks when this descriptor was posted */
    uint64_t aux;        /* reserved for the kind; zero */
    uint64_t cookie;     /* assay_cookie of the seven words above */
} assay_descriptor;

typedef struct {
    uint32_t slot;
    uint32_t generation;
    uint16_t kind;    /* ASSAY_KIND_DONE */
    uint8_t outcome;  /* enum assay_outcome */
    uint8_t stop;     /* enum assay_stop */
    uint32_t prompt_len;
    uint32_t n_generated;
    uint32_t scored;  /* 1 when `reward` is present */
    uint64_t user_data;
    uint64_t reward_id;
    uint64_t posted;  /* clock ticks when the completion became visible */
    double reward;
    uint64_t cookie;
} assay_completion;

/* ---- SPSC ring ------------------------------------------------------------------------------ */

typedef struct {
    ASSAY_ALIGNED ASSAY_ATOMIC(uint64_t) tail; /* producer: [head, tail) is visible */
    ASSAY_ALIGNED uint64_t staged;             /* producer: filled up to here, not yet published */
    uint64_t head_shadow;                      /* producer: head as last seen */
    ASSAY_ALIGNED ASSAY_ATOMIC(uint64_t) head; /* consumer: everything before it is consumed */
    ASSAY_ALIGNED uint64_t taken;              /* consumer: read up to here, not yet returned */
    uint64_t tail_shadow;                      /* consumer: tail as last seen */
    ASSAY_ALIGNED uint64_t mask;               /* capacity - 1; constant */
    ASSAY_TRAILING(assay_descriptor cells[])
} assay_ring;

/* ---- MPMC queue ----------------------------------------------------------------------------- */

/* Bounded queue for any number of producers and consumers. sequence[i] == position: free for the
 * producer of that position; == position + 1: filled for its consumer. */
typedef struct {
    ASSAY_ALIGNED ASSAY_ATOMIC(uint64_t) tail;
    ASSAY_ALIGNED ASSAY_ATOMIC(uint64_t) head;
    ASSAY_ALIGNED uint64_t mask;
    ASSAY_TRAILING(ASSAY_ATOMIC(uint64_t) sequence[]) /* then the cells, on the next line boundary */
} assay_queue;

/* ---- rollout table -------------------------------------------------------------------------- */

/* Owned by the thread that moved it into its state: the submitter (FREE), the worker (PREFILL_READY,
 * DECODING, TRAJECTORY_READY), the scorer (REWARD_PENDING, by winning the exchange), the
 * collector (DONE). */
typedef struct {
    ASSAY_ALIGNED ASSAY_ATOMIC(uint64_t) word; /* generation << 8 | state */
    uint64_t user_data;
    uint64_t group;
    uint64_t prefix;
    uint64_t reward_id;
    double reward;
    uint32_t prompt_len;
    uint32_t max_tokens;
    ASSAY_ATOMIC(uint32_t) n_generated;
    uint8_t outcome;
    uint8_t stop;
    uint8_t holds; /* enum assay_hold */
    uint8_t flags;
    ASSAY_ALIGNED assay_sampler sampler; /* 32 bytes */
    uint32_t kv_reserved; /* KV-block credits held */
    uint32_t scored;
    uint32_t n_stop_ids;
    uint32_t n_stop_strings;
    ASSAY_ATOMIC(uint64_t) cancel; /* generation + 1 once a cancel of that generation was posted */
    uint64_t decode_done;          /* clock ticks */
    ASSAY_ALIGNED int32_t stop_ids[ASSAY_STOP_IDS_MAX];
    uint8_t stop_lengths[ASSAY_STOP_STRINGS_MAX];
    uint32_t kv_version; /* of the weights at admission, which computed the cached positions */
    uint32_t kv_mixed;   /* 1: other weights computed a part of the prompt's keys and values */
    uint32_t reserved[5];
    uint8_t stop_bytes[ASSAY_STOP_STRINGS_MAX][ASSAY_STOP_BYTES_MAX];
} assay_rollout;

/* ---- credits -------------------------------------------------------------------------------- */

enum assay_credit_kind {
    ASSAY_CREDIT_DECODE = 0,
    ASSAY_CREDIT_REWARD = 1,
    ASSAY_CREDIT_TRAJECTORY = 2,
    ASSAY_CREDIT_KV = 3,
    ASSAY_CREDITS = 4
};

typedef struct {
    ASSAY_ALIGNED ASSAY_ATOMIC(int64_t) available;
    int64_t limit;
    ASSAY_ATOMIC(uint64_t) refused; /* takes that found too little */
} assay_credit;

#if !defined(__cplusplus)

_Static_assert(sizeof(assay_descriptor) == ASSAY_LINE, "a descriptor is one cache line");
_Static_assert(sizeof(assay_completion) == ASSAY_LINE, "a completion is one cache line");
_Static_assert(offsetof(assay_descriptor, cookie) == 56, "the cookie is the last word");
_Static_assert(offsetof(assay_completion, cookie) == 56, "the cookie is the last word");
_Static_assert(offsetof(assay_ring, head) == 2 * ASSAY_LINE, "head has a line of its own");
_Static_assert(sizeof(assay_ring) == 5 * ASSAY_LINE, "five lines before the cells");
_Static_assert(sizeof(assay_queue) == 3 * ASSAY_LINE, "three lines before the sequences");
_Static_assert(sizeof(assay_sampler) == 32, "the sampler is plain data of 32 bytes");
_Static_assert(sizeof(assay_rollout) == 384, "six lines a rollout");
_Static_assert(sizeof(assay_credit) == ASSAY_LINE, "one line a credit");

/* Spin-loop hint to the CPU. */
static inline void assay_relax(void) {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ __volatile__("isb" ::: "memory");
#else
    atomic_signal_fence(memory_order_seq_cst);
#endif
}

/* ---- cookie --------------------------------------------------------------------------------- */

/* Every word enters through an odd multiplier, so any single changed word changes the sum. */
static inline uint64_t assay_cookie(const void *line) {
    uint64_t w[7];
    memcpy(w, line, sizeof w);
    uint64_t sum = w[0] * 0x9E3779B97F4A7C15u + w[1] * 0xC2B2AE3D27D4EB4Fu +
                   w[2] * 0x165667B19E3779F9u + w[3] * 0x27D4EB2F165667C5u +
                   w[4] * 0x85EBCA77C2B2AE63u + w[5] * 0xFF51AFD7ED558CCDu +
                   w[6] * 0xC4CEB9FE1A85EC53u;
    return sum ^ sum >> 32;
}

static inline void assay_seal(void *line) {
    uint64_t cookie = assay_cookie(line);
    memcpy((uint8_t *)line + 56, &cookie, sizeof cookie);
}

static inline bool assay_intact(const void *line) {
    uint64_t cookie;
    memcpy(&cookie, (const uint8_t *)line + 56, sizeof cookie);
    return cookie == assay_cookie(line);
}

/* ---- SPSC operations ------------------------------------------------------------------------ */

static inline size_t assay_ring_bytes(uint64_t capacity) {
    return sizeof(assay_ring) + capacity * sizeof(assay_descriptor);
}

/* capacity: a power of two. `start` is the first index; tests put it near the 64-bit wrap. */
static inline void assay_ring_init(assay_ring *r, uint64_t capacity, uint64_t start) {
    atomic_init(&r->tail, start);
    atomic_init(&r->head, start);
    r->staged = r->head_shadow = r->taken = r->tail_shadow = start;
    r->mask = capacity - 1;
}

/* Producer: places free right now, at least `wanted` if the consumer left as many. */
static inline uint64_t assay_ring_room(assay_ring *r, uint64_t wanted) {
    uint64_t room = r->mask + 1 - (r->staged - r->head_shadow);
    if (room < wanted) {
        r->head_shadow = atomic_load_explicit(&r->head, memory_order_acquire);
        room = r->mask + 1 - (r->staged - r->head_shadow);
    }
    return room;
}

/* A cell's line was last in the other side's cache: prefetch it this many cells early, so that the
 * transfers overlap instead of each waiting for the one before. */
enum { ASSAY_PREFETCH_CELLS = 16 };

/* Producer: the next free cell to fill, not yet visible; NULL when the ring is full. */
static inline assay_descriptor *assay_ring_stage(assay_ring *r) {
    if (!assay_ring_room(r, 1)) return NULL;
    __builtin_prefetch(&r->cells[(r->staged + ASSAY_PREFETCH_CELLS) & r->mask], 1);
    return &r->cells[r->staged++ & r->mask];
}

/* Producer: make everything staged visible at once. The consumer's doorbell. */
static inline void assay_ring_publish(assay_ring *r) {
    atomic_store_explicit(&r->tail, r->staged, memory_order_release);
}

/* Producer: stage up to n entries and publish once; returns how many fit. */
static inline uint64_t assay_ring_push(assay_ring *r, const assay_descriptor *d, uint64_t n) {
    uint64_t room = assay_ring_room(r, n);
    if (n > room) n = room;
    for (uint64_t i = 0; i < n; i++) {
        __builtin_prefetch(&r->cells[(r->staged + i + ASSAY_PREFETCH_CELLS) & r->mask], 1);
        r->cells[(r->staged + i) & r->mask] = d[i];
    }
    r->staged += n;
    if (n) assay_ring_publish(r);
    return n;
}

/* Consumer: entries that may be read, at least `wanted` if the producer published as many. */
static inline uint64_t assay_ring_ready(assay_ring *r, uint64_t wanted) {
    uint64_t ready = r->tail_shadow - r->taken;
    if (ready < wanted) {
        r->tail_shadow = atomic_load_explicit(&r->tail, memory_order_acquire);
        ready = r->tail_shadow - r->taken;
    }
    return ready;
}

/* Consumer: copy out up to n entries and return their places at once; returns how many. */
static inline uint64_t assay_ring_pop(assay_ring *r, assay_descriptor *out, uint64_t n) {
    uint64_t ready = assay_ring_ready(r, n);
    if (n > ready) n = ready;
    for (uint64_t i = 0; i < n; i++) {
        /* Not past what is published: the producer is writing there. */
        if (i + ASSAY_PREFETCH_CELLS < ready)
            __builtin_prefetch(&r->cells[(r->taken + i + ASSAY_PREFETCH_CELLS) & r->mask], 0);
        out[i] = r->cells[(r->taken + i) & r->mask];
    }
    r->taken += n;
    if (n) atomic_store_explicit(&r->head, r->taken, memory_order_release);
    return n;
}

/* Any thread: entries in the ring; approximate, as the indices are read at different instants. */
static inline uint64_t assay_ring_length(const assay_ring *r) {
    uint64_t head = atomic_load_explicit(&r->head, memory_order_acquire);
    return atomic_load_explicit(&r->tail, memory_order_acquire) - head;
}

/* ---- MPMC operations ------------------------------------------------------------------------ */

static inline size_t assay_queue_cells_at(uint64_t capacity) {
    size_t end = sizeof(assay_queue) + capacity * sizeof(uint64_t);
    return (end + ASSAY_LINE - 1) / ASSAY_LINE * ASSAY_LINE;
}

static inline size_t assay_queue_bytes(uint64_t capacity) {
    return assay_queue_cells_at(capacity) + capacity * sizeof(assay_descriptor);
}

static inline assay_descriptor *assay_queue_cell(assay_queue *q, uint64_t at) {
    uint8_t *cells = (uint8_t *)q + assay_queue_cells_at(q->mask + 1);
    return (assay_descriptor *)(void *)cells + (at & q->mask);
}

/* capacity: a power of two, at least 2 (with one place, filled and free-again look alike). */
static inline void assay_queue_init(assay_queue *q, uint64_t capacity, uint64_t start) {
    atomic_init(&q->tail, start);
    atomic_init(&q->head, start);
    q->mask = capacity - 1;
    for (uint64_t i = 0; i < capacity; i++)
        atomic_init(&q->sequence[(start + i) & q->mask], start + i);
}

static inline bool assay_queue_push(assay_queue *q, const assay_descriptor *d) {
    uint64_t at = atomic_load_explicit(&q->tail, memory_order_relaxed);
    for (;;) {
        uint64_t seen = atomic_load_explicit(&q->sequence[at & q->mask], memory_order_acquire);
        int64_t lag = (int64_t)(seen - at);
        if (lag < 0) return false;
        if (lag > 0)
            at = atomic_load_explicit(&q->tail, memory_order_relaxed);
        else if (atomic_compare_exchange_weak_explicit(&q->tail, &at, at + 1, memory_order_relaxed,
                                                       memory_order_relaxed))
            break;
    }
    *assay_queue_cell(q, at) = *d;
    atomic_store_explicit(&q->sequence[at & q->mask], at + 1, memory_order_release);
    return true;
}

static inline bool assay_queue_pop(assay_queue *q, assay_descriptor *out) {
    uint64_t at = atomic_load_explicit(&q->head, memory_order_relaxed);
    for (;;) {
        uint64_t seen = atomic_load_explicit(&q->sequence[at & q->mask], memory_order_acquire);
        int64_t lag = (int64_t)(seen - (at + 1));
        if (lag < 0) return false;
        if (lag > 0)
            at = atomic_load_explicit(&q->head, memory_order_relaxed);
        else if (atomic_compare_exchange_weak_explicit(&q->head, &at, at + 1, memory_order_relaxed,
                                                       memory_order_relaxed))
            break;
    }
    *out = *assay_queue_cell(q, at);
    atomic_store_explicit(&q->sequence[at & q->mask], at + q->mask + 1, memory_order_release);
    return true;
}

/* For a single producer: whether a push would succeed. No other thread can take the place. */
static inline bool assay_queue_writable(const assay_queue *q) {
    uint64_t at = atomic_load_explicit(&q->tail, memory_order_relaxed);
    return atomic_load_explicit(&q->sequence[at & q->mask], memory_order_acquire) == at;
}

static inline uint64_t assay_queue_length(const assay_queue *q) {
    uint64_t head = atomic_load_explicit(&q->head, memory_order_acquire);
    uint64_t tail = atomic_load_explicit(&q->tail, memory_order_acquire);
    return (int64_t)(tail - head) > 0 ? tail - head : 0;
}

/* ---- state words ---------------------------------------------------------------------------- */

static inline uint64_t assay_word(uint32_t generation, enum assay_state state) {
    return (uint64_t)generation << 8 | (uint64_t)state;
}

static inline enum assay_state assay_word_state(uint64_t word) {
    return (enum assay_state)(word & 0xFF);
}

static inline uint32_t assay_word_generation(uint64_t word) { return (uint32_t)(word >> 8); }

static inline bool assay_transition_legal(enum assay_state from, enum assay_state to) {
    return from < ASSAY_STATES && (ASSAY_TRANSITIONS[from] >> to & 1u) != 0;
}

/* Move exactly (generation, from) to `to`. DONE -> FREE starts the next generation. False, and
 * nothing changed, when the pair is illegal or the word is not what the caller believed. */
static inline bool assay_transition(assay_rollout *row, uint32_t generation, enum assay_state from,
                                    enum assay_state to) {
    if (!assay_transition_legal(from, to)) return false;
    uint64_t expected = assay_word(generation, from);
    uint64_t next = assay_word(to == ASSAY_FREE ? generation + 1 : generation, to);
    return atomic_compare_exchange_strong_explicit(&row->word, &expected, next,
                                                   memory_order_acq_rel, memory_order_acquire);
}

/* ---- credits -------------------------------------------------------------------------------- */

static inline void assay_credit_init(assay_credit *c, int64_t limit) {
    atomic_init(&c->available, limit);
    c->limit = limit;
    atomic_init(&c->refused, 0);
}

/* All n or none. */
static inline bool assay_credit_take(assay_credit *c, int64_t n) {
    int64_t seen = atomic_load_explicit(&c->available, memory_order_relaxed);
    do {
        if (seen < n) {
            atomic_fetch_add_explicit(&c->refused, 1, memory_order_relaxed);
            return false;
        }
    } while (!atomic_compare_exchange_weak_explicit(&c->available, &seen, seen - n,
                                                    memory_order_acq_rel, memory_order_relaxed));
    return true;
}

static inline void assay_credit_give(assay_credit *c, int64_t n) {
    atomic_fetch_add_explicit(&c->available, n, memory_order_acq_rel);
}

#endif /* !__cplusplus */

#endif
