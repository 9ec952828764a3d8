/* A decode from start to end without Python: reads a model and token ids from standard input, writes
 * the logits after every id to standard output. For machines that the tests cross-compile for.
 *
 * Input: assay_model_shape; tensors as (kind, layer, rows, cols, rows * cols floats), all uint32_t
 * but the floats; ASSAY_T_COUNT; the number of ids; ids.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "engine.h"

enum { BLOCK_TOKENS = 16, BLOCKS = 16, VALUES_MAX = 1 << 24 };

static void need(int good, const char *what) {
    if (good) return;
    fprintf(stderr, "%s\n", what);
    exit(1);
}

static uint32_t word(void) {
    uint32_t value;
    need(fread(&value, sizeof value, 1, stdin) == 1, "the input ends early");
    return value;
}

static assay_engine *make(const assay_model_shape *shape) {
    const assay_engine_settings settings = {.n_threads = 2,
                                            .batch_max = 1,
                                            .step_tokens_max = BLOCK_TOKENS,
                                            .block_tokens = BLOCK_TOKENS,
                                            .first_cpu = -1};
    int status;
    char error[256] = "";
    assay_engine *engine = assay_engine_create(shape, &settings, &status, error, sizeof error);
    need(engine != NULL, error);
    return engine;
}

static void load_all(assay_engine *engine) {
    for (uint32_t kind; (kind = word()) != ASSAY_T_COUNT;) {
        uint32_t layer = word(), rows = word(), cols = word();
        size_t n = (size_t)rows * cols;
        need(n > 0 && n <= VALUES_MAX, "a tensor of no or too great a size");
        float *values = malloc(n * sizeof *values);
        need(values != NULL && fread(values, sizeof *values, n, stdin) == n, "a tensor ends early");
        need(assay_engine_load(engine, kind, layer, values, ASSAY_F32, rows, cols) == 0,
             "a tensor was refused");
        free(values);
    }
    need(assay_engine_seal(engine) == 0, "a tensor is missing");
}

static void decode(assay_engine *engine, uint32_t vocab_size, uint32_t n_ids) {
    uint32_t table[BLOCKS];
    size_t kv_bytes = BLOCKS * assay_engine_kv_block_bytes(engine, BLOCK_TOKENS);
    uint8_t *kv = aligned_alloc(64, (kv_bytes + 63) / 64 * 64);
    assay_sampler greedy = {.top_p = 1.0f};
    need(kv != NULL && n_ids <= BLOCKS * BLOCK_TOKENS, "no room for so many ids");
    for (uint32_t i = 0; i < BLOCKS; i++) table[i] = BLOCKS - 1 - i;
    for (uint32_t at = 0; at < n_ids; at++) {
        const int32_t id = (int32_t)word();
        assay_seq_step step = {.tokens = &id,
                               .n_tokens = 1,
                               .pos0 = at,
                               .block_table = table,
                               .n_blocks = BLOCKS,
                               .want_logits = 1,
                               .sampler = &greedy};
        need(assay_engine_step(engine, kv, &step, 1) == 0, "a step was refused");
        need(fwrite(assay_engine_logits(engine, 0), sizeof(float), vocab_size, stdout) ==
                 vocab_size, "nobody reads the logits");
    }
    free(kv);
}

int main(void) {
    assay_model_shape shape;
    need(fread(&shape, sizeof shape, 1, stdin) == 1, "the input ends early");
    assay_engine *engine = make(&shape);
    load_all(engine);
    decode(engine, shape.vocab_size, word());
    assay_engine_destroy(engine);
    return 0;
}
