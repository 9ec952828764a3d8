#define _GNU_SOURCE
#include "bench.h"

#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "engine.h"

enum { BATCH_MAX = 1024, POLL_MAX = 256, SPINS = 4000 };

static void pin_self(int32_t cpu) {
    cpu_set_t set;
    if (cpu < 0) return;
    CPU_ZERO(&set);
    CPU_SET((unsigned)cpu, &set);
    (void)pthread_setaffinity_np(pthread_self(), sizeof set, &set);
}

/* Created on its CPU: otherwise a spinning thread could prevent it from migrating there. */
static int start_on(pthread_t *thread, int32_t cpu, void *(*body)(void *), void *arg) {
    pthread_attr_t attributes;
    cpu_set_t set;
    if (cpu < 0) return pthread_create(thread, NULL, body, arg);
    CPU_ZERO(&set);
    CPU_SET((unsigned)cpu, &set);
    pthread_attr_init(&attributes);
    pthread_attr_setaffinity_np(&attributes, sizeof set, &set);
    int status = pthread_create(thread, &attributes, body, arg);
    pthread_attr_destroy(&attributes);
    return status;
}

static void unpin_self(const cpu_set_t *before) {
    (void)pthread_setaffinity_np(pthread_self(), sizeof *before, before);
}

static void breathe(uint32_t *spins) {
    if (++*spins % SPINS)
        assay_relax();
    else
        (void)sched_yield();
}

static double since(uint64_t begin_ns) { return (double)(assay_monotonic_ns() - begin_ns) * 1e-9; }

/* ---- rings --------------------------------------------------------------------------------------- */

typedef struct {
    assay_ring *ring;
    assay_queue *queue;
    uint64_t n, batch;
    int32_t cpu;
    _Atomic(uint64_t) consumed;
    _Alignas(64) _Atomic(uint32_t) ready;
    bool stamp;
} course;

static void *produce_ring(void *arg) {
    course *c = arg;
    uint32_t spins = 0;
    atomic_store(&c->ready, 1);
    for (uint64_t sent = 0; sent < c->n;) {
        uint64_t n = c->n - sent < c->batch ? c->n - sent : c->batch;
        if (assay_ring_room(c->ring, n) < n) {
            breathe(&spins);
            continue;
        }
        for (uint64_t i = 0; i < n; i++) {
            assay_descriptor *d = assay_ring_stage(c->ring);
            *d = (assay_descriptor){.slot = (uint32_t)(sent + i), .kind = ASSAY_KIND_DECODE};
            assay_seal(d);
        }
        assay_ring_publish(c->ring);
        sent += n;
    }
    return NULL;
}

static bool consume_ring(course *c) {
    assay_descriptor got[BATCH_MAX];
    uint32_t spins = 0;
    bool good = true;
    for (uint64_t seen = 0; seen < c->n;) {
        uint64_t n = assay_ring_pop(c->ring, got, c->batch);
        if (!n) breathe(&spins);
        for (uint64_t i = 0; i < n; i++, seen++)
            good &= assay_intact(&got[i]) && got[i].slot == (uint32_t)seen;
    }
    return good;
}

static double timed(course *c, void *(*produce)(void *), bool (*consume)(course *), int32_t cpu) {
    pthread_t producer;
    cpu_set_t before;
    (void)pthread_getaffinity_np(pthread_self(), sizeof before, &before);
    pin_self(cpu);
    if (start_on(&producer, c->cpu, produce, c)) return 0;
    while (!atomic_load(&c->ready)) sched_yield();
    uint64_t begin = assay_monotonic_ns();
    bool good = consume(c);
    double seconds = since(begin);
    pthread_join(producer, NULL);
    unpin_self(&before);
    return good ? seconds : 0;
}

double assay_bench_ring(uint64_t n, uint64_t batch, uint64_t capacity, int32_t cpu_producer,
                        int32_t cpu_consumer) {
    course c = {.n = n, .batch = batch < BATCH_MAX ? batch : BATCH_MAX, .cpu = cpu_producer};
    c.ring = aligned_alloc(ASSAY_LINE, assay_ring_bytes(capacity));
    if (c.ring == NULL) return 0;
    memset((void *)c.ring, 0, assay_ring_bytes(capacity));
    assay_ring_init(c.ring, capacity, 0);
    double seconds = timed(&c, produce_ring, consume_ring, cpu_consumer);
    free(c.ring);
    return seconds;
}

static void *produce_queue(void *arg) {
    course *c = arg;
    uint32_t spins = 0;
    atomic_store(&c->ready, 1);
    for (uint64_t sent = 0; sent < c->n; sent++) {
        assay_descriptor d = {.slot = (uint32_t)sent, .kind = ASSAY_KIND_DECODE};
        assay_seal(&d);
        while (!assay_queue_push(c->queue, &d)) breathe(&spins);
    }
    return NULL;
}

static bool consume_queue(course *c) {
    assay_descriptor d;
    uint32_t spins = 0;
    bool good = true;
    for (uint64_t seen = 0; seen < c->n; seen++) {
        while (!assay_queue_pop(c->queue, &d)) breathe(&spins);
        good &= assay_intact(&d) && d.slot == (uint32_t)seen;
    }
    return good;
}

double assay_bench_queue(uint64_t n, uint64_t capacity, int32_t cpu_producer,
                         int32_t cpu_consumer) {
    course c = {.n = n, .batch = 1, .cpu = cpu_producer};
    c.queue = aligned_alloc(ASSAY_LINE, assay_queue_bytes(capacity));
    if (c.queue == NULL) return 0;
    memset((void *)c.queue, 0, assay_queue_bytes(capacity));
    assay_queue_init(c.queue, capacity, 0);
    double seconds = timed(&c, produce_queue, consume_queue, cpu_consumer);
    free(c.queue);
    return seconds;
}

/* ---- latency --------------------------------------------------------------------------------------- */

static void *produce_paced(void *arg) {
    course *c = arg;
    uint32_t spins = 0;
    atomic_store(&c->ready, 1);
    for (uint64_t sent = 0; sent < c->n; sent++) {
        assay_descriptor d = {.slot = (uint32_t)sent, .posted = assay_ticks()};
        (void)assay_ring_push(c->ring, &d, 1);
        while (atomic_load_explicit(&c->consumed, memory_order_acquire) == sent) breathe(&spins);
    }
    return NULL;
}

bool assay_bench_latency(uint64_t n, int32_t cpu_producer, int32_t cpu_consumer, double *out) {
    const double ns = assay_clock_of()->ns_per_tick;
    course c = {.n = n, .batch = 1, .cpu = cpu_producer};
    pthread_t producer;
    cpu_set_t before;
    assay_descriptor d;
    uint32_t spins = 0;
    c.ring = aligned_alloc(ASSAY_LINE, assay_ring_bytes(64));
    if (c.ring == NULL) return false;
    memset((void *)c.ring, 0, assay_ring_bytes(64));
    assay_ring_init(c.ring, 64, 0);
    (void)pthread_getaffinity_np(pthread_self(), sizeof before, &before);
    pin_self(cpu_consumer);
    if (start_on(&producer, c.cpu, produce_paced, &c)) return false;
    for (uint64_t seen = 0; seen < n; seen++) {
        while (!assay_ring_pop(c.ring, &d, 1)) breathe(&spins);
        out[seen] = (double)(int64_t)(assay_ticks() - d.posted) * ns;
        atomic_store_explicit(&c.consumed, seen + 1, memory_order_release);
    }
    pthread_join(producer, NULL);
    unpin_self(&before);
    free(c.ring);
    return true;
}

/* ---- a whole runtime -------------------------------------------------------------------------------- */

typedef struct {
    assay_runtime *rt;
    const assay_drive *drive;
    assay_driven *out;
    uint64_t random, back;
    int32_t *prompt;
    bool carried; /* a refused group is submitted again unchanged */
    assay_order order;
    uint32_t group, length;
} driver;

static uint64_t draw(driver *d, uint64_t below) {
    d->random ^= d->random << 13;
    d->random ^= d->random >> 7;
    d->random ^= d->random << 17;
    return d->random % below;
}

static void make_group(driver *d) {
    const assay_drive *s = d->drive;
    uint64_t left = s->rollouts - d->out->submitted;
    uint32_t group = s->vary ? 1 + (uint32_t)draw(d, s->group) : s->group;
    d->group = left < group ? (uint32_t)left : group;
    d->length = s->vary ? 1 + (uint32_t)draw(d, s->prompt_len) : s->prompt_len;
    int32_t which = (int32_t)draw(d, s->prompts ? s->prompts : 1);
    for (uint32_t i = 0; i < d->length; i++) d->prompt[i] = (which * 31 + (int32_t)i) & 127;
    d->order = (assay_order){.max_tokens = s->vary ? 1 + (uint32_t)draw(d, s->max_tokens)
                                                   : s->max_tokens,
                             .flags = s->want_reward ? 0 : ASSAY_FLAG_NO_REWARD};
    d->carried = true;
}

static bool submit_group(driver *d) {
    assay_member members[POLL_MAX];
    assay_ref refs[POLL_MAX];
    if (d->out->submitted == d->drive->rollouts) return false;
    if (!d->carried) make_group(d);
    for (uint32_t i = 0; i < d->group; i++)
        members[i] = (assay_member){d->out->submitted + i, d->out->submitted + i, 0};
    int status = assay_runtime_submit(d->rt, &d->order, d->prompt, d->length, members, d->group,
                                      refs);
    if (status != ASSAY_OK) {
        d->out->full++;
        return false;
    }
    d->carried = false;
    d->out->submitted += d->group;
    for (uint32_t i = 0; i < d->group && d->drive->cancel_one_in; i++)
        if (draw(d, d->drive->cancel_one_in) == 0) (void)assay_runtime_cancel(d->rt, refs[i]);
    return true;
}

static void check_one(driver *d, const assay_completion *c) {
    uint32_t n = c->prompt_len + c->n_generated;
    const int32_t *tokens = assay_tokens(assay_runtime_region(d->rt), c->slot);
    d->out->tokens += c->n_generated;
    d->out->completed += c->outcome == ASSAY_COMPLETED;
    d->out->cancelled += c->outcome == ASSAY_CANCELLED;
    if (c->scored && c->reward != (double)(assay_prefix_hash(tokens, n) >> 11) * 0x1p-53)
        d->out->wrong++;
}

static uint64_t poll_some(driver *d) {
    assay_completion done[POLL_MAX];
    uint64_t n = assay_runtime_poll(d->rt, done, POLL_MAX);
    for (uint64_t i = 0; i < n; i++) check_one(d, &done[i]);
    if (n) assay_runtime_release(d->rt, done, n);
    d->back += n;
    return n;
}

static void drive_held(assay_runtime *rt, const assay_drive *drive, assay_driven *out) {
    driver d = {.rt = rt, .drive = drive, .out = out, .random = drive->seed | 1};
    if (drive->group == 0 || drive->group > POLL_MAX) return;
    d.prompt = calloc(drive->prompt_len, sizeof *d.prompt);
    if (d.prompt == NULL) return;
    cpu_set_t before;
    (void)pthread_getaffinity_np(pthread_self(), sizeof before, &before);
    pin_self(drive->cpu);
    uint64_t begin = assay_monotonic_ns();
    assay_worker *w = assay_runtime_worker(rt);
    while (d.back < drive->rollouts && atomic_load(&w->state) == ASSAY_WORKER_RUNNING) {
        uint32_t seen = assay_runtime_bell(rt);
        bool any = false;
        while (submit_group(&d)) any = true;
        any |= poll_some(&d) > 0;
        if (!any) (void)assay_runtime_wait(rt, seen, 1000 * 1000);
    }
    out->seconds = since(begin);
    unpin_self(&before);
    free(d.prompt);
}

void assay_bench_drive(assay_host h, const assay_drive *drive, assay_driven *out) {
    memset(out, 0, sizeof *out);
    assay_runtime *rt = assay_host_enter(h);
    if (rt == NULL) return;
    drive_held(rt, drive, out);
    assay_host_leave(h);
}

/* ---- cost of passing a step to the worker ------------------------------------------------------------- */

typedef struct {
    uint32_t mode;
    int to_worker, to_host;
    uint64_t steps_an_order;
    assay_ring *orders, *done;
    assay_bell worker_bell, host_bell;
    _Alignas(64) _Atomic(uint64_t) asked;
    _Alignas(64) _Atomic(uint64_t) answered;
    _Alignas(64) _Atomic(uint32_t) stop;
    _Atomic(uint64_t) work;
} tax;

static void one_step(tax *t) { atomic_fetch_add_explicit(&t->work, 1, memory_order_relaxed); }

static bool wait_ring(tax *t, assay_ring *r, assay_bell *bell, assay_descriptor *out) {
    uint32_t spins = 0;
    for (;;) {
        uint32_t seen = assay_bell_read(bell);
        if (assay_ring_pop(r, out, 1)) return true;
        if (atomic_load_explicit(&t->stop, memory_order_relaxed)) return false;
        if (++spins < SPINS / 10)
            assay_relax();
        else
            assay_bell_park(bell, seen, 10 * 1000 * 1000);
    }
}

static void send_ring(assay_ring *r, assay_bell *bell, uint64_t n) {
    assay_descriptor d = {.max_tokens = (uint32_t)n};
    (void)assay_ring_push(r, &d, 1);
    assay_bell_ring(bell);
}

static void serve_eventfd(tax *t) {
    uint64_t one = 1, got;
    while (read(t->to_worker, &got, sizeof got) == sizeof got && !atomic_load(&t->stop)) {
        one_step(t);
        if (write(t->to_host, &one, sizeof one) != sizeof one) return;
    }
}

static void serve_polling(tax *t) {
    for (uint64_t n = 0; !atomic_load_explicit(&t->stop, memory_order_relaxed);) {
        if (atomic_load_explicit(&t->asked, memory_order_acquire) == n) {
            assay_relax();
            continue;
        }
        one_step(t);
        atomic_store_explicit(&t->answered, ++n, memory_order_release);
    }
}

static void serve_ring(tax *t) {
    assay_descriptor d;
    while (wait_ring(t, t->orders, &t->worker_bell, &d)) {
        for (uint32_t i = 0; i < d.max_tokens; i++) one_step(t);
        send_ring(t->done, &t->host_bell, d.max_tokens);
    }
}

static void *serve(void *arg) {
    tax *t = arg;
    if (t->mode == ASSAY_TAX_EVENTFD)
        serve_eventfd(t);
    else if (t->mode == ASSAY_TAX_POLLING)
        serve_polling(t);
    else
        serve_ring(t);
    return NULL;
}

static void *burn(void *arg) {
    tax *t = arg;
    while (!atomic_load_explicit(&t->stop, memory_order_relaxed)) assay_relax();
    return NULL;
}

/* One round trip; false when it did not come back before the deadline. */
static bool ask(tax *t, uint64_t *round, uint64_t until_ns) {
    uint64_t one = 1, got;
    assay_descriptor d;
    if (t->mode == ASSAY_TAX_EVENTFD)
        return write(t->to_worker, &one, sizeof one) == sizeof one &&
               read(t->to_host, &got, sizeof got) == sizeof got;
    if (t->mode == ASSAY_TAX_POLLING) {
        atomic_store_explicit(&t->asked, ++*round, memory_order_release);
        for (uint32_t spins = 1; atomic_load_explicit(&t->answered, memory_order_acquire) != *round;
             spins++) {
            assay_relax();
            if (spins % 1024 == 0 && assay_monotonic_ns() > until_ns) return false;
        }
        return true;
    }
    send_ring(t->orders, &t->worker_bell, t->mode == ASSAY_TAX_RESIDENT ? t->steps_an_order : 1);
    return wait_ring(t, t->done, &t->host_bell, &d);
}

static bool open_tax(tax *t) {
    t->to_worker = eventfd(0, 0);
    t->to_host = eventfd(0, 0);
    t->orders = aligned_alloc(ASSAY_LINE, assay_ring_bytes(64));
    t->done = aligned_alloc(ASSAY_LINE, assay_ring_bytes(64));
    if (t->to_worker < 0 || t->to_host < 0 || t->orders == NULL || t->done == NULL) return false;
    assay_ring_init(t->orders, 64, 0);
    assay_ring_init(t->done, 64, 0);
    return true;
}

static void close_tax(tax *t) {
    close(t->to_worker);
    close(t->to_host);
    free(t->orders);
    free(t->done);
}

void assay_bench_tax(uint32_t mode, int32_t cpu_host, int32_t cpu_worker, uint32_t hogs,
                     uint64_t steps_an_order, double seconds, assay_taxed *out) {
    tax t = {.mode = mode, .steps_an_order = steps_an_order};
    pthread_t worker, burners[8];
    cpu_set_t before;
    uint64_t one = 1, round = 0;
    memset(out, 0, sizeof *out);
    if (hogs > 8 || !open_tax(&t)) return;
    (void)pthread_getaffinity_np(pthread_self(), sizeof before, &before);
    pin_self(cpu_host);
    if (start_on(&worker, cpu_worker, serve, &t)) {
        close_tax(&t);
        return;
    }
    uint32_t burning = 0;
    while (burning < hogs && !start_on(&burners[burning], cpu_worker, burn, &t)) burning++;
    uint64_t warm_until = assay_monotonic_ns() + 1000000000u;
    for (int i = 0; i < 16 && ask(&t, &round, warm_until); i++) continue;
    uint64_t begin = assay_monotonic_ns(), until = begin + (uint64_t)(seconds * 1e9);
    uint64_t base = atomic_load(&t.work);
    while (assay_monotonic_ns() < until && ask(&t, &round, until)) continue;
    out->steps = atomic_load(&t.work) - base;
    out->seconds = since(begin);
    atomic_store(&t.stop, 1);
    if (write(t.to_worker, &one, sizeof one) < 0) out->steps = 0;
    assay_bell_ring(&t.worker_bell);
    pthread_join(worker, NULL);
    for (uint32_t i = 0; i < burning; i++) pthread_join(burners[i], NULL);
    unpin_self(&before);
    close_tax(&t);
}
