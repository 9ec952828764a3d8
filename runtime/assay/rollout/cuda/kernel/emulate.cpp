/* See emulate.h. Compiled with the kernel into one shared library by `host_build.py`. */
#include <setjmp.h>
#include <stdlib.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#include "kernel.cu"

namespace {

constexpr uint32_t STACK_BYTES = 128 * 1024;
constexpr uint64_t ROUNDS_LATE = 24;
constexpr uint32_t IDLE_US = 20, IDLE_US_MAX = 640; /* a pause where all wait for the host */
constexpr uint32_t ROUNDS_BUSY = 100; /* more than lie between two looks for work */

struct fiber {
    jmp_buf at;
    uint32_t thread, block, number;
    bool started, ended;
    const uint32_t *generation; /* null, or it waits until this is no longer `seen` */
    const uint64_t *gate;       /* null, or it waits until the parity of this is no longer `seen` */
    uint32_t seen;
};

struct warp {
    uint32_t arrived, generation, parity;
    uint32_t value[2][32];
    uint32_t a[2][32][4], b[2][32][2];
};

struct block {
    uint32_t arrived, generation;         /* workers */
    uint32_t all_arrived, all_generation; /* and the feeder */
    alignas(128) uint8_t memory[sizeof(assay_shared)];
};

struct grid {
    assay_params params;
    uint32_t n_blocks, n;
    fiber *fibers;
    warp *warps;
    block *blocks;
    uint32_t *order;
    uint64_t random;
    uint64_t rounds;
    uint32_t late; /* a warp that does not run for a while: whatever fails to wait for it overtakes it */
    bool idle;
    uint32_t pause_us, busy; /* the next pause, and the rounds since the last one */
};

thread_local grid *here;
thread_local fiber *me;
thread_local jmp_buf scheduler;

/* Back to the scheduler; it returns here when this fiber's turn comes again. */
void leave() {
    if (_setjmp(me->at) == 0) _longjmp(scheduler, 1);
}

void fiber_body() {
    assay_decode(here->params);
    me->ended = true;
    _longjmp(scheduler, 1);
}

void start(fiber *f, uint8_t *stack) {
    ucontext_t context;
    getcontext(&context);
    context.uc_stack.ss_sp = stack;
    context.uc_stack.ss_size = STACK_BYTES;
    context.uc_link = nullptr;
    makecontext(&context, fiber_body, 0);
    f->started = true;
    setcontext(&context);
}

void arrive(uint32_t *arrived, uint32_t *generation, uint32_t all) {
    const uint32_t mine = *generation;
    if (++*arrived == all) {
        *arrived = 0;
        ++*generation;
        return;
    }
    me->generation = generation;
    me->seen = mine;
    leave();
    me->generation = nullptr;
}

/* What it would look at first in its turn, and leave again: seen from here, that costs no switch. */
bool waits(const fiber *f) {
    if (f->generation) return *f->generation == f->seen;
    return f->gate && *f->gate >> 63 == f->seen;
}

warp *my_warp() { return &here->warps[me->number / 32]; }

/* Lanes that exchange values fill one of two buffers in turn: a fast lane is at most one ahead. */
uint32_t meet(uint32_t slot_parity) {
    warp *w = my_warp();
    arrive(&w->arrived, &w->generation, 32);
    return slot_parity;
}

float bf16_at(uint32_t two, uint32_t high) { return high ? high_half(two) : low_half(two); }

uint32_t draw(grid *g, uint32_t below) {
    g->random = g->random * 6364136223846793005ull + 1442695040888963407ull;
    return (uint32_t)((g->random >> 33) % below);
}

/* Warps in another order; every ROUNDS_LATE rounds another warp is held up. */
void disturb(grid *g) {
    const uint32_t warps = g->n / 32;
    if (g->rounds++ % ROUNDS_LATE == 0) g->late = draw(g, warps);
    const uint32_t first = draw(g, warps);
    for (uint32_t i = 0; i < g->n; i++) g->order[i] = (first * 32 + i) % g->n;
    if (g->rounds % 2) {
        for (uint32_t i = 0; i < g->n / 2; i++) {
            const uint32_t kept = g->order[i];
            g->order[i] = g->order[g->n - 1 - i];
            g->order[g->n - 1 - i] = kept;
        }
    }
}

/* After a round. Each pause is twice the last, until rounds without any show that there is work. */
void rest(grid *g) {
    if (!g->idle) {
        if (++g->busy == ROUNDS_BUSY) g->pause_us = IDLE_US;
        return;
    }
    g->busy = 0;
    usleep(g->pause_us);
    if (g->pause_us < IDLE_US_MAX) g->pause_us *= 2;
}

}  // namespace

uint32_t thread_of_block() { return me->thread; }
uint32_t block_of_grid() { return me->block; }
uint32_t blocks_of_grid() { return here->n_blocks; }
uint8_t *shared_memory() { return here->blocks[me->block].memory; }
void sync_block() {
    block *b = &here->blocks[me->block];
    arrive(&b->arrived, &b->generation, A_THREADS);
}
void sync_all() {
    block *b = &here->blocks[me->block];
    arrive(&b->all_arrived, &b->all_generation, A_ALL_THREADS);
}
void sync_warp() { (void)meet(0); }

/* A gate's word: arrivals missing, those of a whole phase, and the parity of the phase under way. */
void gate_init(uint64_t *gate, uint32_t arrivals) {
    *gate = (uint64_t)arrivals << 32 | arrivals;
}
void gate_arrive(uint64_t *gate) {
    if (((--*gate) & 0xFFFFFFFFu) != 0) return;
    *gate = (*gate ^ 1ull << 63) | (*gate >> 32 & 0xFFFFu);
}
void gate_wait(uint64_t *gate, uint32_t parity) {
    if (*gate >> 63 != parity) return;
    me->gate = gate;
    me->seen = parity;
    leave();
    me->gate = nullptr;
}
void gate_fill(uint64_t *gate, void *to, const void *from, uint32_t bytes, uint64_t) {
    need_sixteens((uint64_t)to | (uint64_t)from | bytes);
#if A_GENERAL
    for (uint32_t at = (me->thread & 31) * 16; at < bytes; at += 512)
        memcpy((uint8_t *)to + at, (const uint8_t *)from + at, 16);
#else
    memcpy(to, from, bytes);
#endif
    gate_arrive(gate);
}

uint32_t from_lane(uint32_t v, uint32_t lane) {
    warp *w = my_warp();
    const uint32_t parity = w->generation & 1;
    w->value[parity][me->thread & 31] = v;
    (void)meet(parity);
    return w->value[parity][lane & 31];
}
uint32_t swap_lanes(uint32_t v, uint32_t mask) { return from_lane(v, (me->thread & 31) ^ mask); }

void multiply_add(float *c, uint32_t a0, uint32_t a1, uint32_t a2, uint32_t a3, uint32_t b0,
                  uint32_t b1) {
    warp *w = my_warp();
    const uint32_t parity = w->generation & 1, lane = me->thread & 31, g = lane / 4, t = lane % 4;
    const uint32_t a[4] = {a0, a1, a2, a3}, b[2] = {b0, b1};
    memcpy(w->a[parity][lane], a, sizeof a);
    memcpy(w->b[parity][lane], b, sizeof b);
    (void)meet(parity);
    for (uint32_t i = 0; i < 4; i++) {
        const uint32_t row = g + (i / 2) * 8, column = 2 * t + i % 2;
        float sum = 0;
#pragma GCC unroll 16
        for (uint32_t k = 0; k < 16; k++) {
            const uint32_t other = k % 8 / 2, word = k / 8;
            const uint32_t two = w->a[parity][row % 8 * 4 + other][word * 2 + row / 8];
            sum += bf16_at(two, k % 2) * bf16_at(w->b[parity][column * 4 + other][word], k % 2);
        }
        c[i] += sum;
    }
}

void doze() { leave(); }
void look_again() { leave(); }
void doze_long() {
    here->idle = true;
    leave();
}
uint64_t now_ns() {
    timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000ull + (uint64_t)t.tv_nsec;
}

/* Runs the kernel to its end. 0, or 1 when out of memory. */
extern "C" int assay_emulate(const assay_params *params, uint32_t n_blocks, uint64_t seed) {
    grid g = {};
    g.params = *params;
    g.n_blocks = n_blocks;
    g.n = n_blocks * A_ALL_THREADS;
    g.random = seed;
    g.pause_us = IDLE_US;
    g.fibers = (fiber *)calloc(g.n, sizeof *g.fibers);
    g.warps = (warp *)calloc(g.n / 32, sizeof *g.warps);
    g.blocks = (block *)aligned_alloc(128, n_blocks * sizeof *g.blocks);
    g.order = (uint32_t *)calloc(g.n, sizeof *g.order);
    uint8_t *stacks = (uint8_t *)malloc((size_t)g.n * STACK_BYTES);
    const bool whole = g.fibers && g.warps && g.blocks && g.order && stacks;
    for (uint32_t i = 0; whole && i < g.n; i++) {
        g.fibers[i].number = i;
        g.fibers[i].thread = i % A_ALL_THREADS;
        g.fibers[i].block = i / A_ALL_THREADS;
        g.order[i] = i;
    }
    if (whole) memset(g.blocks, 0x5A, n_blocks * sizeof *g.blocks);
    for (uint32_t b = 0; whole && b < n_blocks; b++) {
        g.blocks[b].arrived = g.blocks[b].generation = 0;
        g.blocks[b].all_arrived = g.blocks[b].all_generation = 0;
    }
    here = &g;
    for (volatile uint32_t left = whole ? g.n : 0; left > 0;) {
        if (seed) disturb(&g);
        g.idle = false;
        for (volatile uint32_t i = 0; i < g.n; i++) {
            me = &g.fibers[g.order[i]];
            if (me->ended || waits(me) || (seed && me->number / 32 == g.late)) continue;
            if (_setjmp(scheduler) == 0) {
                if (me->started) _longjmp(me->at, 1);
                start(me, stacks + (size_t)me->number * STACK_BYTES);
            }
            if (me->ended) left = left - 1;
        }
        rest(&g);
    }
    free(stacks);
    free(g.order);
    free(g.blocks);
    free(g.warps);
    free(g.fibers);
    return whole ? 0 : 1;
}

/* ---- the sizes that Python mirrors, and the stage operations, for tests -------------------------- */

extern "C" uint64_t assay_size_of(uint32_t what) {
    const uint64_t sizes[] = {sizeof(assay_link),       sizeof(assay_params),
                              sizeof(assay_rollout),    sizeof(assay_ring),
                              sizeof(assay_limits),     sizeof(assay_descriptor),
                              sizeof(assay_completion), sizeof(assay_credit),
                              sizeof(assay_shared),     offsetof(assay_link, stop),
                              offsetof(assay_link, heartbeat), offsetof(assay_ring, taken),
                              sizeof(assay_desk)};
    return what < sizeof sizes / sizeof *sizes ? sizes[what] : 0;
}

/* A desk over zeroed memory, of the limits in the link. */
extern "C" void assay_desk_init(assay_desk *k, assay_link *link, assay_rollout *rows) {
    const assay_limits l = link->limits;
    const int64_t credits[] = {l.decode_credits, l.reward_credits, l.trajectory_credits,
                               l.kv_blocks};
    k->link = link;
    k->limits = l;
    k->rows = rows;
    open_rings(k);
    for (int i = 0; i < ASSAY_CREDITS; i++)
        k->credits[i].available = k->credits[i].limit = credits[i];
    for (uint32_t i = 0; i < l.slots; i++) rows[i].word = word_of(l.generation_first, ASSAY_FREE);
}

extern "C" const assay_credit *assay_desk_credits(const assay_desk *k) { return k->credits; }

extern "C" void assay_desk_counts(const assay_desk *k, uint64_t *out) {
    out[0] = k->submitted;
    out[1] = k->completed;
    out[2] = k->failed;
    out[3] = k->illegal;
    out[4] = k->stale;
}

static assay_name named(uint32_t slot, uint32_t generation) {
    assay_name name;
    name.slot = slot;
    name.generation = generation;
    return name;
}

extern "C" int assay_stage_order(assay_desk *k, uint32_t slot, uint32_t generation) {
    return stage_order(k, named(slot, generation));
}
extern "C" int assay_stage_prefilled(assay_desk *k, uint32_t slot, uint32_t generation) {
    return stage_prefilled(k, named(slot, generation));
}
extern "C" int assay_stage_decoded(assay_desk *k, uint32_t slot, uint32_t generation,
                                   uint64_t ticks) {
    return stage_decoded(k, named(slot, generation), ticks);
}
extern "C" int assay_stage_score(assay_desk *k, uint32_t slot, uint32_t generation, double reward,
                                 uint64_t ticks) {
    return stage_score(k, named(slot, generation), reward, ticks);
}
extern "C" int assay_stage_end(assay_desk *k, uint32_t slot, uint32_t generation, uint32_t from,
                               uint32_t outcome, uint64_t ticks) {
    return stage_end(k, named(slot, generation), from, (uint8_t)outcome, ticks);
}
extern "C" int assay_stage_release(assay_desk *k, uint32_t slot, uint32_t generation) {
    return stage_release(k, named(slot, generation));
}
extern "C" int assay_stage_take(assay_desk *k, uint32_t kind) { return take_credit(k, kind, 1); }
extern "C" int assay_take_command(assay_desk *k, assay_descriptor *out) {
    return ring_get(&k->commands, out);
}
