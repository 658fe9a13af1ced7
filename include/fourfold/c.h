/* The C interface: load a model, tokenize, evaluate, read logits, generate.
 *
 * Handles are opaque; whoever creates one frees it. Every function that can fail returns an ff_status and, when its
 * `error` is not NULL, writes the same status and a message there; the message names the field, the value and what
 * would be accepted. There is no hidden state: one session belongs to one thread at a time, a model to any number. A
 * session keeps what it needs of its model, so the order of freeing is free. Text is UTF-8 with an explicit length and
 * need not end in NUL; paths and names do.
 *
 * Structs of options start with their size, so that a later library can tell what an older caller knows: fill them
 * with their _init function, then change what you need. NULL stands for the defaults. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "fourfold/export.hpp"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum ff_status {
  FF_OK = 0,
  FF_INVALID_ARGUMENT = 1, /* the caller's value is not acceptable */
  FF_NOT_FOUND = 2,        /* a file, a tensor or a key is missing */
  FF_IO = 3,               /* the operating system refused a read or a write */
  FF_MALFORMED = 4,        /* bytes that break their format's rules */
  FF_UNSUPPORTED = 5,      /* well-formed, but this build, executor or version cannot do it */
  FF_RESOURCE = 6,         /* memory, context or another budget is exhausted */
  FF_CANCELLED = 7         /* the caller asked to stop */
} ff_status;

typedef struct ff_error {
  ff_status status;
  char message[1024]; /* ends in NUL; a longer message is cut after a whole character */
} ff_error;

typedef struct ff_model ff_model;
typedef struct ff_session ff_session;

/* The library's version, such as "0.1.0". */
FOURFOLD_API const char* ff_version(void);

/* ---- Model: weights and vocabulary, read-only once loaded. ---- */

/* Opens a .gguf file (or its first shard), or a folder with config.json and *.safetensors. */
FOURFOLD_API ff_status ff_model_load(const char* path, ff_model** model, ff_error* error);
FOURFOLD_API void ff_model_free(ff_model* model); /* NULL is fine, here and below */

/* The model's family, such as "llama"; lives as long as the model. */
FOURFOLD_API const char* ff_model_family(const ff_model* model);
/* Number of token ids, which is the length of a row of logits. */
FOURFOLD_API int32_t ff_model_vocab(const ff_model* model);
/* The longest context, in tokens, that the model was made for. */
FOURFOLD_API int32_t ff_model_context(const ff_model* model);

/* ---- Text. Both functions store at most `capacity` items, and always tell how many there are in all. When that is
 * more than `capacity` they store nothing and fail with FF_INVALID_ARGUMENT, but for a capacity of 0, which only asks
 * for the number. FF_UNSUPPORTED: the file holds no vocabulary that can be used. ---- */

enum {
  FF_TOKENIZE_NO_BOS = 1, /* no beginning-of-text id, even if the model's file asks for one */
  FF_TOKENIZE_BOS = 2,    /* a beginning-of-text id, even if it does not */
  FF_TOKENIZE_SPECIAL = 4 /* control tokens spelled out in the text become their ids: never for untrusted text */
};

FOURFOLD_API ff_status ff_tokenize(const ff_model* model, const char* text, size_t bytes, unsigned flags, int32_t* ids,
                                   size_t capacity, size_t* count, ff_error* error);
/* The bytes behind ids as they are, which need not be whole characters. Control tokens give nothing. */
FOURFOLD_API ff_status ff_detokenize(const ff_model* model, const int32_t* ids, size_t count, char* text,
                                     size_t capacity, size_t* bytes, ff_error* error);

/* ---- Session: one sequence of tokens with its caches. ---- */

typedef enum ff_cache {
  FF_CACHE_DEFAULT = 0,
  FF_CACHE_F32 = 1,
  FF_CACHE_F16 = 2,
  FF_CACHE_BF16 = 3,
  FF_CACHE_Q8_0 = 4
} ff_cache;

typedef struct ff_session_options {
  size_t size;
  int32_t context;      /* tokens; 0: what the model was made for, at most 8192 */
  int32_t threads;      /* 0: the physical cores that this process may use */
  int32_t f32;          /* not 0: activations, and by default caches, in float32 */
  ff_cache cache;       /* storage of keys and values */
  const char* executor; /* "team" (or NULL), "reference" or "reference-f32" */
} ff_session_options;

FOURFOLD_API void ff_session_options_init(ff_session_options* options);
/* FF_UNSUPPORTED: the message lists every unmet requirement, one a line. */
FOURFOLD_API ff_status ff_session_create(const ff_model* model, const ff_session_options* options, ff_session** session,
                                         ff_error* error);
/* An independent session at the same position; the weights are shared. */
FOURFOLD_API ff_status ff_session_fork(const ff_session* session, ff_session** copy, ff_error* error);
FOURFOLD_API void ff_session_free(ff_session* session);

/* Tokens evaluated so far, and the most that fit. */
FOURFOLD_API int32_t ff_session_position(const ff_session* session);
FOURFOLD_API int32_t ff_session_context(const ff_session* session);
/* Forgets all but the first `position` tokens. */
FOURFOLD_API ff_status ff_session_rewind(ff_session* session, int32_t position, ff_error* error);
/* Writes tokens and caches to a file, replaced whole or not at all, and reads them back. */
FOURFOLD_API ff_status ff_session_save(const ff_session* session, const char* path, ff_error* error);
FOURFOLD_API ff_status ff_session_restore(ff_session* session, const char* path, ff_error* error);

/* Appends ids: one is a decode step, more are a prefill. FF_RESOURCE: they do not fit, and nothing was evaluated. */
FOURFOLD_API ff_status ff_eval(ff_session* session, const int32_t* ids, size_t count, ff_error* error);
/* The logits [vocab] after the last evaluated token, good until the session's next call; NULL when there are none. */
FOURFOLD_API const float* ff_logits(const ff_session* session);

/* ---- Generation. ---- */

typedef struct ff_generate_options {
  size_t size;
  int32_t max_tokens;   /* -1: until the model ends its text or the context is full */
  int32_t ignore_eos;   /* not 0: the model cannot end its text */
  float temperature;    /* 0: the likeliest token, the lowest id among equals; default 0.8 */
  int32_t top_k;        /* keep the k best; 0: all; default 40 */
  float top_p;          /* keep the smallest set of this mass; 1: all; default 0.95 */
  float min_p;          /* keep what has this share of the best probability; 0: all; default 0.05 */
  float repeat_penalty; /* 1, the default: none */
  int32_t repeat_last;  /* tokens that the penalty looks back on; -1: all; default 64 */
  int64_t seed;         /* -1, the default: a random one */
} ff_generate_options;

typedef enum ff_finish {
  FF_FINISH_EOS = 0,     /* the model ended its text */
  FF_FINISH_LENGTH = 1,  /* max_tokens */
  FF_FINISH_CONTEXT = 2, /* the context is full */
  FF_FINISH_STOPPED = 3  /* the callback asked for it */
} ff_finish;

/* Called once per step with the text that it completes: whole UTF-8 characters, perhaps none yet. `id` is the token
 * sampled last. Anything but 0 ends the generation. It must not call functions on the same session. */
typedef int (*ff_token_callback)(void* user, int32_t id, const char* text, size_t bytes);

FOURFOLD_API void ff_generate_options_init(ff_generate_options* options);
/* Evaluates the prompt's ids (none: goes on from the last evaluation), then samples, reports and evaluates, token after
 * token. `callback` and `finish` may be NULL. */
FOURFOLD_API ff_status ff_generate(ff_session* session, const int32_t* ids, size_t count,
                                   const ff_generate_options* options, ff_token_callback callback, void* user,
                                   ff_finish* finish, ff_error* error);

#ifdef __cplusplus
}
#endif
