/* See engine.h: creation, weights and versions. Steps are in batch.c and layers.c. */
#define _GNU_SOURCE
#include "engine.h"

#include <fcntl.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine_state.h"
#include "isa.h"
#include "second_base.h"

enum {
    SPIN_DEFAULT = 20000,        /* 0.3 to 1 ms: longer than one item of a step */
    SMALL_MODEL_BYTES = 8 << 20, /* below this size, one thread is faster than several */
    NO_FILE = -1,
};

/* ------------------------------------------------------------------------------------------------
 * Steps */

int assay_engine_step(assay_engine *e, uint8_t *kv_base, assay_seq_step *steps,
                      uint32_t n_steps) {
    if (!e->sealed) {
        return ASSAY_ENGINE_NOT_SEALED;
    }
    if (kv_base == NULL || steps == NULL) {
        return ASSAY_ENGINE_INVALID;
    }
    if (n_steps == 0) {
        return ASSAY_ENGINE_OK;
    }
    const int status = assay_batch_begin(e, kv_base, steps, n_steps);
    if (status != ASSAY_ENGINE_OK) {
        return status;
    }
    return assay_pool_run(&e->pool) == 0 ? ASSAY_ENGINE_OK : ASSAY_ENGINE_BROKEN;
}

int assay_engine_decode_run(assay_engine *e, uint8_t *kv_base, assay_seq_step *steps,
                            uint32_t n_steps, uint32_t n_times, int32_t *tokens, float *logps) {
    for (uint32_t n = 0; n < n_times; n++) {
        const int status = assay_engine_step(e, kv_base, steps, n_steps);
        if (status != ASSAY_ENGINE_OK) {
            return status;
        }
        for (uint32_t i = 0; i < n_steps; i++) {
            if (tokens != NULL) {
                tokens[(size_t)n * n_steps + i] = steps[i].out_token;
            }
            if (logps != NULL) {
                logps[(size_t)n * n_steps + i] = steps[i].out_logp;
            }
            steps[i].pos0 += steps[i].n_tokens;
            steps[i].n_tokens = 1;
            steps[i].tokens = &steps[i].out_token;
        }
    }
    return ASSAY_ENGINE_OK;
}

/* ------------------------------------------------------------------------------------------------
 * Creation */

static void say(char *error, size_t error_len, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    if (error != NULL && error_len > 0) {
        vsnprintf(error, error_len, format, arguments);
    }
    va_end(arguments);
}

static const char *wrong_shape(const assay_model_shape *s) {
    if (s->dim == 0 || s->n_layers == 0 || s->hidden_dim == 0 || s->vocab_size == 0 ||
        s->seq_len_max == 0) {
        return "dim, n_layers, hidden_dim, vocab_size and seq_len_max must be positive";
    }
    if (s->head_dim == 0 || s->head_dim % 2 != 0) {
        return "head_dim must be positive and even";
    }
    if (s->n_kv_heads == 0 || s->n_heads % s->n_kv_heads != 0 || s->n_heads == 0) {
        return "n_heads must be a positive multiple of n_kv_heads";
    }
    if (s->vocab_size > INT32_MAX - 32 || s->seq_len_max > 1u << 24) {
        return "vocab_size or seq_len_max is out of range";
    }
    if (s->weight_dtype > ASSAY_BF16 || s->kv_dtype > ASSAY_BF16) {
        return "weight_dtype and kv_dtype must be F32 or BF16";
    }
    return NULL;
}

static const char *wrong_settings(const assay_engine_settings *s) {
    if (s->batch_max == 0 || s->step_tokens_max < s->batch_max) {
        return "batch_max must be positive and step_tokens_max at least batch_max";
    }
    if (s->block_tokens == 0 || s->block_tokens % ASSAY_SUB != 0) {
        return "block_tokens must be a positive multiple of 16";
    }
    if (s->n_threads > ASSAY_THREADS_MAX) {
        return "n_threads is above 256";
    }
    return NULL;
}

static uint32_t threads_for(size_t weight_bytes) {
    const long cpus = sysconf(_SC_NPROCESSORS_ONLN);
    if (weight_bytes < SMALL_MODEL_BYTES || cpus < 2) {
        return 1;
    }
    return cpus > ASSAY_THREADS_MAX ? ASSAY_THREADS_MAX : (uint32_t)cpus;
}

/* Steps read this slot from now on. */
static void read_slot(assay_engine *e, uint32_t slot) {
    e->active = slot;
    e->weights = &e->bases[e->slots[slot].base].weights;
    e->adapter = e->slots[slot].adapter.matrices == NULL ? NULL : &e->slots[slot].adapter;
}

static int start(assay_engine *e) {
    int status = assay_base_take(&e->shape, e->kernels, &e->bases[0], NO_FILE, &e->huge_pages);
    if (status != ASSAY_ENGINE_OK) {
        return status;
    }
    read_slot(e, 0);
    e->pool.n_threads = e->settings.n_threads != 0 ? e->settings.n_threads
                                                   : threads_for(e->weights->bytes);
    status = assay_engine_take_room(e);
    if (status != ASSAY_ENGINE_OK) {
        return status;
    }
    e->pool.spin_max = e->settings.spin_max == 0 ? SPIN_DEFAULT : e->settings.spin_max;
    e->pool.first_cpu = e->settings.first_cpu;
    e->pool.body = assay_layers_run;
    e->pool.context = e;
    return assay_pool_start(&e->pool) == 0 ? ASSAY_ENGINE_OK : ASSAY_ENGINE_NO_MEMORY;
}

static assay_engine *new_engine(const assay_model_shape *shape,
                                const assay_engine_settings *settings,
                                const assay_kernels *kernels) {
    assay_engine *e = aligned_alloc(64, assay_round_up(sizeof *e, 64));
    if (e == NULL) {
        return NULL;
    }
    memset(e, 0, sizeof *e);
    e->shape = *shape;
    e->settings = *settings;
    e->kernels = kernels;
    e->gemm = &kernels->gemm[shape->weight_dtype];
    e->attend = &kernels->attend[shape->kv_dtype];
    e->kv = assay_kv_layout_of(shape, settings->block_tokens);
    e->sizes = assay_engine_sizes_of(shape, settings);
    e->slots[1].base = 1;
    e->second_file = NO_FILE;
    return e;
}

assay_engine *assay_engine_create(const assay_model_shape *shape,
                                  const assay_engine_settings *settings, int *status, char *error,
                                  size_t error_len) {
    const char *wrong = wrong_shape(shape);
    wrong = wrong != NULL ? wrong : wrong_settings(settings);
    if (wrong != NULL) {
        say(error, error_len, "%s", wrong);
        *status = ASSAY_ENGINE_INVALID;
        return NULL;
    }
    const assay_kernels *kernels = assay_kernels_for(settings->isa);
    if (kernels == NULL) {
        say(error, error_len, "this machine or build lacks instruction set %u", settings->isa);
        *status = ASSAY_ENGINE_UNSUPPORTED;
        return NULL;
    }
    assay_engine *e = new_engine(shape, settings, kernels);
    *status = e == NULL ? ASSAY_ENGINE_NO_MEMORY : start(e);
    if (*status != ASSAY_ENGINE_OK) {
        say(error, error_len, "%s", assay_engine_status_text(*status));
        assay_engine_destroy(e);
        return NULL;
    }
    return e;
}

void assay_engine_destroy(assay_engine *e) {
    if (e == NULL) {
        return;
    }
    if (e->room_pages != NULL) {
        assay_pool_stop(&e->pool);
    }
    assay_pages_unmap(e->room_pages, e->room_bytes);
    for (uint32_t i = 0; i < 2; i++) {
        assay_base_drop(&e->bases[i]);
        assay_adapter_drop(&e->slots[i].adapter);
    }
    if (e->second_file != NO_FILE) {
        close(e->second_file);
    }
    free(e);
}

/* ------------------------------------------------------------------------------------------------
 * Weights */

int assay_engine_load(assay_engine *e, uint32_t tensor, uint32_t layer, const void *data,
                      uint32_t dtype, uint32_t rows, uint32_t cols) {
    if (e->sealed) {
        return ASSAY_ENGINE_NOT_SEALED;
    }
    return assay_weights_load(&e->bases[0].weights, tensor, layer, data, dtype, rows, cols);
}

/* The angle is rounded to float32 before the cosine, as every float32 reference does. */
static void fill_rope(assay_engine *e) {
    const uint32_t half = e->shape.head_dim / 2;
    for (uint32_t position = 0; position < e->shape.seq_len_max; position++) {
        for (uint32_t i = 0; i < half; i++) {
            const float angle = (float)position * e->weights->rope_inv_freq[i];
            const size_t at = (size_t)position * half + i;
            e->rope_cos[at] = (float)cos((double)angle) * e->shape.rope_gain;
            e->rope_sin[at] = (float)sin((double)angle) * e->shape.rope_gain;
        }
    }
}

int assay_engine_seal(assay_engine *e) {
    const int status = assay_weights_complete(e->weights);
    if (status == ASSAY_ENGINE_OK && !e->sealed) {
        fill_rope(e);
        e->sealed = 1;
    }
    return status;
}

int assay_engine_second_in_file(assay_engine *e, int file) {
    if (e->bases[1].pages != NULL || e->second_file != NO_FILE) {
        return ASSAY_ENGINE_INVALID;
    }
    e->second_file = fcntl(file, F_DUPFD_CLOEXEC, 0);
    return e->second_file == -1 ? ASSAY_ENGINE_NO_MEMORY : ASSAY_ENGINE_OK;
}

static assay_slot *inactive(assay_engine *e) {
    return &e->slots[1 - e->active];
}

int assay_engine_stage_begin(assay_engine *e) {
    if (!e->sealed) {
        return ASSAY_ENGINE_NOT_SEALED;
    }
    assay_slot *slot = inactive(e);
    e->staged_whole = 0;
    e->staging = ASSAY_STAGING_NONE;
    assay_adapter_drop(&slot->adapter);
    slot->base = 1 - e->slots[e->active].base;
    assay_base *base = &e->bases[slot->base];
    uint32_t huge;
    if (base->pages == NULL &&
        assay_base_take(&e->shape, e->kernels, base, e->second_file, &huge) != ASSAY_ENGINE_OK) {
        return ASSAY_ENGINE_NO_MEMORY;
    }
    assay_weights_begin_again(&base->weights, e->weights);
    e->staging = ASSAY_STAGING_TENSORS;
    return ASSAY_ENGINE_OK;
}

int assay_engine_stage(assay_engine *e, const assay_piece *piece) {
    if (e->staging != ASSAY_STAGING_TENSORS || piece->tensor == ASSAY_T_ROPE_INV_FREQ) {
        return ASSAY_ENGINE_INVALID;
    }
    return assay_weights_load_rows(&e->bases[inactive(e)->base].weights, piece);
}

static assay_adapter_host adapter_host(const assay_engine *e) {
    return (assay_adapter_host){
        .kernels = e->kernels,
        .gemm = e->gemm,
        .rows_pad = e->sizes.rows_pad,
        .n_threads = e->pool.n_threads,
        .pads = {e->sizes.dim_ld, e->sizes.att_pad, e->sizes.hidden_pad},
        .inputs = {e->act.norm_in, e->act.att_in, e->act.hidden_in},
    };
}

int assay_engine_stage_adapter_begin(assay_engine *e, const assay_adapter_piece *pieces,
                                     uint32_t n_pieces) {
    if (!e->sealed) {
        return ASSAY_ENGINE_NOT_SEALED;
    }
    assay_slot *slot = inactive(e);
    const assay_adapter_host host = adapter_host(e);
    e->staged_whole = 0;
    slot->base = e->slots[e->active].base;
    const int status = assay_adapter_begin(&slot->adapter, &e->bases[slot->base].weights, &host,
                                           pieces, n_pieces);
    e->staging = status == ASSAY_ENGINE_OK ? ASSAY_STAGING_ADAPTER : ASSAY_STAGING_NONE;
    return status;
}

int assay_engine_stage_adapter(assay_engine *e, const assay_adapter_piece *piece) {
    return e->staging != ASSAY_STAGING_ADAPTER
               ? ASSAY_ENGINE_INVALID
               : assay_adapter_load(&inactive(e)->adapter, piece);
}

int assay_engine_stage_end(assay_engine *e) {
    const assay_slot *slot = inactive(e);
    int status = e->staged_whole ? ASSAY_ENGINE_OK : ASSAY_ENGINE_MISSING;
    if (e->staging == ASSAY_STAGING_TENSORS) {
        status = assay_weights_complete(&e->bases[slot->base].weights);
    } else if (e->staging == ASSAY_STAGING_ADAPTER) {
        status = assay_adapter_complete(&slot->adapter);
    }
    if (status == ASSAY_ENGINE_OK) {
        e->staged_whole = 1;
        e->staging = ASSAY_STAGING_NONE;
        assay_base_put_away(&e->bases[1]);
    }
    return status;
}

/* The set that steps read is always the one in memory: a staged one in the file changes places with
 * it. An adapter refers to the set in memory that it was staged over, and is in use with no other. */
static void bring_into_memory(assay_engine *e) {
    assay_slot *to = inactive(e);
    if (to->base == 1 && e->bases[1].in_file) {
        assay_base_exchange(&e->bases[0], &e->bases[1]);
        assay_base_put_away(&e->bases[1]);
        e->slots[e->active].base = 1;
        to->base = 0;
    }
}

int assay_engine_swap(assay_engine *e, uint64_t version) {
    if (!e->staged_whole) {
        return ASSAY_ENGINE_MISSING;
    }
    bring_into_memory(e);
    read_slot(e, 1 - e->active);
    e->policy_version = version;
    return ASSAY_ENGINE_OK;
}

void assay_engine_set_policy_version(assay_engine *e, uint64_t version) {
    e->policy_version = version;
}

uint64_t assay_engine_policy_version(const assay_engine *e) {
    return e->policy_version;
}

size_t assay_engine_kv_block_bytes(const assay_engine *e, uint32_t block_tokens) {
    return assay_kv_layout_of(&e->shape, block_tokens).block_bytes;
}

void assay_engine_kv_copy(const assay_engine *e, uint8_t *dst, const uint8_t *src,
                          uint32_t n_positions) {
    assay_kv_copy_block(&e->kv, dst, src, n_positions);
}

const float *assay_engine_logits(const assay_engine *e, uint32_t index) {
    if (index >= e->batch.n_steps || e->batch.logit_row[index] == UINT32_MAX) {
        return NULL;
    }
    return e->act.logits + (size_t)e->batch.logit_row[index] * e->sizes.vocab_ld;
}

void assay_engine_get_info(const assay_engine *e, assay_engine_info *info) {
    memset(info, 0, sizeof *info);
    snprintf(info->isa, sizeof info->isa, "%s", e->kernels->name);
    info->n_threads = e->pool.n_threads;
    info->huge_pages = e->huge_pages;
    info->weight_bytes = e->weights->bytes;
    info->matrix_bytes = e->weights->matrix_bytes;
    info->workspace_bytes = e->room_bytes;
    info->kv_block_bytes = e->kv.block_bytes;
    info->parks = atomic_load_explicit(&e->pool.parks, memory_order_relaxed);
}

const char *assay_engine_status_text(int status) {
    switch (status) {
    case ASSAY_ENGINE_OK:
        return "ok";
    case ASSAY_ENGINE_INVALID:
        return "an argument that no engine could accept";
    case ASSAY_ENGINE_NO_MEMORY:
        return "out of memory";
    case ASSAY_ENGINE_UNSUPPORTED:
        return "this machine or build lacks the instruction set";
    case ASSAY_ENGINE_NOT_SEALED:
        return "step before seal, or load after it";
    case ASSAY_ENGINE_MISSING:
        return "a tensor was not loaded";
    case ASSAY_ENGINE_BROKEN:
        return "a thread of the engine died; make another engine";
    case ASSAY_ENGINE_TOO_MANY:
        return "more entries or tokens in a step than the settings allow";
    case ASSAY_ENGINE_BAD_TOKEN:
        return "a token id outside the vocabulary";
    case ASSAY_ENGINE_BAD_BLOCKS:
        return "the block table does not reach the last position";
    case ASSAY_ENGINE_CONTEXT:
        return "a position at or past seq_len_max";
    case ASSAY_ENGINE_NOT_FINITE:
        return "a value that is not finite in the dtype it is kept in";
    default:
        return "unknown status";
    }
}

static int ops_step(void *self, uint8_t *kv_base, assay_seq_step *steps, uint32_t n_steps) {
    return assay_engine_step(self, kv_base, steps, n_steps);
}

static void ops_kv_copy(void *self, uint8_t *dst, const uint8_t *src, uint32_t n_positions) {
    assay_engine_kv_copy(self, dst, src, n_positions);
}

static void ops_rouse(void *self) {
    assay_pool_rouse(&((assay_engine *)self)->pool);
}

void assay_engine_ops_of(assay_engine *e, assay_engine_ops *ops) {
    *ops = (assay_engine_ops){
        .self = e,
        .step = ops_step,
        .kv_copy = ops_kv_copy,
        .kv_block_bytes = e->kv.block_bytes,
        .block_tokens = e->settings.block_tokens,
        .vocab_size = e->shape.vocab_size,
        .seq_len_max = e->shape.seq_len_max,
        .batch_max = e->settings.batch_max,
        .step_tokens_max = e->settings.step_tokens_max,
        .rouse = ops_rouse,
    };
}
