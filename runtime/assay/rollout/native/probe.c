#define _GNU_SOURCE
#include "probe.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "clock.h"

static uint64_t mix(uint64_t h, uint64_t x) {
    h = (h ^ x) * 0x9E3779B97F4A7C15u;
    return h ^ h >> 31;
}

static uint64_t *cell(const assay_probe *p, uint8_t *base, const assay_seq_step *s, uint32_t at) {
    size_t block = s->block_table[at / p->block_tokens];
    size_t position = block * p->block_tokens + at % p->block_tokens;
    return (uint64_t *)(void *)(base + position * p->bytes_a_position);
}

static void run_entry(const assay_probe *p, uint8_t *base, assay_seq_step *s) {
    uint64_t h = s->pos0 ? *cell(p, base, s, s->pos0 - 1) : 0;
    for (uint32_t i = 0; i < s->n_tokens; i++)
        *cell(p, base, s, s->pos0 + i) = h =
            mix(h, (uint32_t)s->tokens[i] | p->policy_version << 32);
    s->policy_version = p->policy_version;
    if (!s->want_logits) return;
    uint32_t end = s->pos0 + s->n_tokens;
    if (p->read_all)
        for (uint32_t at = 0; at < end; at++) h = mix(h, *cell(p, base, s, at));
    h = mix(mix(h, s->sampler->seed), end);
    s->out_token = (int32_t)(h % p->vocab_size);
    s->out_logp = -(float)(h >> 40 & 1023u) / 256.0f;
}

/* Violations that the hot-path guard must detect. */
static void misbehave(uint64_t how) {
    static uint8_t *pages;
    static size_t at;
    enum { PAGE = 4096, PAGES = 1 << 16 };
    if (how == 1) (void)syscall(SYS_getppid);
    if (how == 2) {
        void *volatile block = malloc(64);
        free(block);
    }
    if (how != 3) return;
    if (pages == NULL)
        pages = mmap(NULL, (size_t)PAGE * PAGES, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (pages != MAP_FAILED && at < PAGES) pages[at++ * PAGE] = 1;
}

static int step(void *self, uint8_t *base, assay_seq_step *steps, uint32_t n) {
    assay_probe *p = self;
    p->steps++;
    if (p->misbehave) misbehave(p->misbehave);
    if (p->fail_at_step && p->steps >= p->fail_at_step) return -77;
    if (p->fault_at_step && p->steps >= p->fault_at_step) {
        volatile int *volatile nowhere = NULL;
        *nowhere = 1;
    }
    for (uint32_t i = 0; i < n; i++) run_entry(p, base, &steps[i]);
    if (p->spin_ns) {
        const uint64_t begun = assay_monotonic_ns();
        while (assay_monotonic_ns() - begun < __atomic_load_n(&p->spin_ns, __ATOMIC_RELAXED)) continue;
    }
    return 0;
}

static void copy(void *self, uint8_t *dst, const uint8_t *src, uint32_t n_positions) {
    const assay_probe *p = self;
    memcpy(dst, src, (size_t)n_positions * p->bytes_a_position);
}

void assay_probe_ops(assay_probe *probe, uint32_t seq_len_max, uint32_t batch_max,
                     uint32_t step_tokens_max, assay_engine_ops *ops) {
    *ops = (assay_engine_ops){
        .self = probe,
        .step = step,
        .kv_copy = copy,
        .kv_block_bytes = (size_t)probe->block_tokens * probe->bytes_a_position,
        .block_tokens = probe->block_tokens,
        .vocab_size = probe->vocab_size,
        .seq_len_max = seq_len_max,
        .batch_max = batch_max,
        .step_tokens_max = step_tokens_max,
    };
}
