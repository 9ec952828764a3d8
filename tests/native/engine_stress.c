/* Runs the engine hard enough for a sanitizer to see what is wrong: many threads on few cores, short
 * spins (so that threads park, leave runs and come back), every instruction set, both dtypes,
 * shared prefixes, prefill chunks, copies, steps that are refused, and adapters that another thread
 * stages while steps run. */
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine.h"

enum { DIM = 48, HIDDEN = 80, VOCAB = 70, LAYERS = 2, BLOCKS = 24, BATCH = 6, TABLE = 4 };

static float *random_values(size_t n) {
    float *values = malloc(n * sizeof *values);
    for (size_t i = 0; i < n; i++) {
        values[i] = (float)rand() / (float)RAND_MAX - 0.45f;
    }
    return values;
}

static void load(assay_engine *e, uint32_t kind, uint32_t layer, uint32_t rows, uint32_t cols) {
    float *values = random_values((size_t)rows * cols);
    if (assay_engine_load(e, kind, layer, values, ASSAY_F32, rows, cols) != ASSAY_ENGINE_OK) {
        fprintf(stderr, "tensor %u refused\n", kind);
        exit(1);
    }
    free(values);
}

static assay_engine *make(uint32_t isa, uint32_t dtype, uint32_t threads) {
    const assay_model_shape shape = {
        .dim = DIM,
        .n_layers = LAYERS,
        .n_heads = 4,
        .n_kv_heads = 2,
        .head_dim = 12,
        .hidden_dim = HIDDEN,
        .vocab_size = VOCAB,
        .seq_len_max = 64,
        .rms_eps = 1e-5f,
        .rope_gain = 1.0f,
        .weight_dtype = (uint8_t)dtype,
        .kv_dtype = (uint8_t)dtype,
        .tied_embeddings = 1,
    };
    const assay_engine_settings settings = {
        .n_threads = threads,
        .batch_max = BATCH,
        .step_tokens_max = 40,
        .block_tokens = 16,
        .spin_max = 20,
        .first_cpu = -1,
        .isa = isa,
    };
    int status;
    char error[128];
    assay_engine *e = assay_engine_create(&shape, &settings, &status, error, sizeof error);
    if (e == NULL) {
        return NULL;
    }
    load(e, ASSAY_T_EMBED, 0, VOCAB, DIM);
    load(e, ASSAY_T_FINAL_NORM, 0, 1, DIM);
    load(e, ASSAY_T_ROPE_INV_FREQ, 0, 1, 6);
    for (uint32_t i = 0; i < LAYERS; i++) {
        load(e, ASSAY_T_ATTN_NORM, i, 1, DIM);
        load(e, ASSAY_T_WQ, i, 48, DIM);
        load(e, ASSAY_T_WK, i, 24, DIM);
        load(e, ASSAY_T_WV, i, 24, DIM);
        load(e, ASSAY_T_WO, i, DIM, 48);
        load(e, ASSAY_T_FFN_NORM, i, 1, DIM);
        load(e, ASSAY_T_W_GATE, i, HIDDEN, DIM);
        load(e, ASSAY_T_W_UP, i, HIDDEN, DIM);
        load(e, ASSAY_T_W_DOWN, i, DIM, HIDDEN);
    }
    if (assay_engine_seal(e) != ASSAY_ENGINE_OK) {
        exit(1);
    }
    return e;
}

static void stress(assay_engine *e, uint8_t *kv, size_t block_bytes, uint32_t rounds) {
    int32_t prompt[32];
    uint32_t tables[BATCH][TABLE];
    assay_sampler samplers[BATCH];
    assay_seq_step steps[BATCH];
    for (uint32_t round = 0; round < rounds; round++) {
        for (uint32_t i = 0; i < 32; i++) {
            prompt[i] = (int32_t)((round + i * 7) % VOCAB);
        }
        uint32_t root[TABLE] = {0, 1, 2, 3};
        assay_seq_step prefill = {
            .tokens = prompt, .n_tokens = 20, .block_table = root, .n_blocks = TABLE};
        if (assay_engine_step(e, kv, &prefill, 1) != ASSAY_ENGINE_OK) {
            exit(1);
        }
        for (uint32_t i = 0; i < BATCH; i++) {
            memcpy(tables[i], (uint32_t[]){0, 4 + 3 * i, 5 + 3 * i, 6 + 3 * i}, sizeof tables[i]);
            assay_engine_kv_copy(e, kv + tables[i][1] * block_bytes, kv + block_bytes, 4);
            samplers[i] = (assay_sampler){.temperature = (float)(i % 3),
                                          .top_p = i % 2 ? 0.9f : 1.0f,
                                          .top_k = i * 3,
                                          .seed = round * 100 + i};
            steps[i] = (assay_seq_step){.tokens = &prompt[i],
                                        .n_tokens = 1,
                                        .pos0 = 20,
                                        .block_table = tables[i],
                                        .n_blocks = TABLE,
                                        .shared_blocks = 1,
                                        .want_logits = 1,
                                        .sampler = &samplers[i]};
        }
        if (assay_engine_decode_run(e, kv, steps, BATCH, 30, NULL, NULL) != ASSAY_ENGINE_OK) {
            exit(1);
        }
        const int32_t bad = VOCAB;
        assay_seq_step refused = prefill;
        refused.tokens = &bad;
        refused.n_tokens = 1;
        if (assay_engine_step(e, kv, &refused, 1) != ASSAY_ENGINE_BAD_TOKEN) {
            exit(1);
        }
    }
}

static const uint32_t projections[][3] = {
    {ASSAY_T_WQ, 48, DIM},        {ASSAY_T_WK, 24, DIM},      {ASSAY_T_WV, 24, DIM},
    {ASSAY_T_WO, DIM, 48},        {ASSAY_T_W_GATE, HIDDEN, DIM}, {ASSAY_T_W_UP, HIDDEN, DIM},
    {ASSAY_T_W_DOWN, DIM, HIDDEN}};

enum { PROJECTIONS = sizeof projections / sizeof *projections, PIECES = PROJECTIONS * LAYERS };

typedef struct {
    assay_engine *engine;
    uint32_t kind;
} staging;

/* Random values serve every piece: the largest array has HIDDEN x RANK or 2 x 8 x 7 / 2 per block. */
static void *stage(void *argument) {
    enum { RANK = 5, BLOCK = 8 };
    const staging *s = argument;
    float *values = random_values((size_t)HIDDEN * DIM);
    assay_adapter_piece pieces[PIECES];
    const int lora = s->kind == ASSAY_ADAPT_LORA;
    for (uint32_t i = 0; i < PIECES; i++) {
        const uint32_t *p = projections[i % PROJECTIONS];
        pieces[i] = (assay_adapter_piece){
            .tensor = p[0], .layer = i / PROJECTIONS, .kind = s->kind, .dtype = ASSAY_F32,
            .rows = p[1], .cols = p[2], .size = lora ? RANK : BLOCK,
            .n_blocks = lora ? 0 : p[2] / BLOCK, .terms = s->kind == ASSAY_ADAPT_OFT_NEUMANN ? 5 : 0,
            .scale = lora ? 0.5f : 0.0f, .a = values, .b = values};
    }
    if (assay_engine_stage_adapter_begin(s->engine, pieces, PIECES) != ASSAY_ENGINE_OK) {
        exit(1);
    }
    for (uint32_t i = 0; i < PIECES; i++) {
        if (assay_engine_stage_adapter(s->engine, &pieces[i]) != ASSAY_ENGINE_OK) {
            exit(1);
        }
    }
    if (assay_engine_stage_end(s->engine) != ASSAY_ENGINE_OK) {
        exit(1);
    }
    free(values);
    return NULL;
}

static void stress_adapters(assay_engine *e, uint8_t *kv, size_t block_bytes) {
    for (uint32_t kind = ASSAY_ADAPT_LORA; kind <= ASSAY_ADAPT_OFT_EXPONENTIAL; kind++) {
        staging work = {e, kind};
        pthread_t thread;
        if (pthread_create(&thread, NULL, stage, &work) != 0) {
            exit(1);
        }
        stress(e, kv, block_bytes, 1);
        pthread_join(thread, NULL);
        if (assay_engine_swap(e, kind + 1) != ASSAY_ENGINE_OK) {
            exit(1);
        }
    }
    stress(e, kv, block_bytes, 1);
}

int main(void) {
    for (uint32_t isa = ASSAY_ISA_PORTABLE; isa <= ASSAY_ISA_AMX; isa++) {
        for (uint32_t dtype = ASSAY_F32; dtype <= ASSAY_BF16; dtype++) {
            for (uint32_t threads = 1; threads <= 5; threads += 2) {
                assay_engine *e = make(isa, dtype, threads);
                if (e == NULL) {
                    continue;
                }
                const size_t block_bytes = assay_engine_kv_block_bytes(e, 16);
                uint8_t *kv = aligned_alloc(64, BLOCKS * block_bytes);
                memset(kv, 0xff, BLOCKS * block_bytes);
                stress(e, kv, block_bytes, 2);
                if (threads == 3) {
                    stress_adapters(e, kv, block_bytes);
                }
                free(kv);
                assay_engine_destroy(e);
            }
        }
    }
    printf("stressed\n");
    return 0;
}
