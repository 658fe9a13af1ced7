/* The C interface: load a model, tokenize, evaluate, read logits, generate.
 *
 * Handles are opaque; whoever creates one frees it. Every function that can fail returns an ff_status and, when its
 * `error` is not NULL, writes the same status and a message there; the message names the field, the value and what
 * would be accepted. There is no hidden state: different handles may be used from different threads at once, one
 * session from one thread at a time, one model from any number. A session keeps its model alive, so the order of
 * freeing is free. Text is UTF-8 with an explicit length, never expected to end in NUL. Token ids are int32_t.
 *
 * Structs of options start with their size, so that a later library can tell what an older caller knows; fill them
 * with the matching _init function, then change what you need. */
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
  FF_UNSUPPORTED = 5,      /* well-formed, but this build or executor cannot do it */
  FF_RESOURCE = 6,         /* memory, context or another budget is exhausted */
  FF_CANCELLED = 7         /* the caller asked to stop */
} ff_status;

typedef struct ff_error {
  ff_status status;
  char message[1024]; /* UTF-8, ends in NUL; cut at a whole character when longer */
} ff_error;

typedef struct ff_model ff_model;
typedef struct ff_session ff_session;

/* The library's version, such as "0.1.0". */
FOURFOLD_API const char* ff_version(void);

/* ---- Model: weights and vocabulary, read-only once loaded. ---- */

/* Loads a .gguf file (or its first shard) or a folder with config.json and *.safetensors. Files are mapped, not read.
 */
FOURFOLD_API ff_status ff_model_load(const char* path, ff_model** model, ff_error* error);
FOURFOLD_API void ff_model_free(ff_model* model);

/* The file's name for the architecture, such as "llama"; lives as long as the model. */
FOURFOLD_API const char* ff_model_architecture(const ff_model* model);
/* Number of token ids, which is the length of a row of logits. */
FOURFOLD_API int32_t ff_model_vocabulary(const ff_model* model);
/* The context in tokens that the model was trained for. */
FOURFOLD_API int32_t ff_model_context(const ff_model* model);

/* ---- Text. Both functions write at most `capacity` items and always tell in the last output how many there are. They
 * fail with FF_INVALID_ARGUMENT when that is more than `capacity`, unless `capacity` is 0: then they only count. ----
 */

enum {
  FF_TOKENIZE_BOS = 1,    /* put the beginning-of-text id first, when the model has one and wants it */
  FF_TOKENIZE_SPECIAL = 2 /* control tokens spelled out in the text become their ids; never do that to untrusted text */
};

FOURFOLD_API ff_status ff_tokenize(const ff_model* model, const char* text, size_t bytes, unsigned flags, int32_t* ids,
                                   size_t capacity, size_t* count, ff_error* error);
/* The bytes behind ids, as they are: they need not be whole UTF-8 characters. Control tokens give nothing. */
FOURFOLD_API ff_status ff_detokenize(const ff_model* model, const int32_t* ids, size_t count, char* text,
                                     size_t capacity, size_t* bytes, ff_error* error);

/* ---- Session: one sequence of tokens with its caches. ---- */

typedef enum ff_storage { FF_F32 = 0, FF_F16 = 1, FF_BF16 = 2, FF_Q8_0 = 3 } ff_storage;

typedef struct ff_session_options {
  size_t size;
  int32_t context;      /* tokens; 0: what the model was trained for */
  int32_t threads;      /* 0: the physical cores that this process may use */
  ff_storage cache;     /* storage of keys and values; default FF_F16 */
  int32_t f32;          /* not 0: activations and caches in float32 */
  const char* executor; /* NULL: the default; "reference" or "team" */
} ff_session_options;

FOURFOLD_API void ff_session_options_init(ff_session_options* options);
/* `options` may be NULL for the defaults. FF_UNSUPPORTED lists every unmet requirement, one a line. */
FOURFOLD_API ff_status ff_session_create(ff_model* model, const ff_session_options* options, ff_session** session,
                                         ff_error* error);
FOURFOLD_API void ff_session_free(ff_session* session);

/* Tokens evaluated so far, and the most that fit. */
FOURFOLD_API int32_t ff_session_position(const ff_session* session);
FOURFOLD_API int32_t ff_session_capacity(const ff_session* session);
/* Forgets all but the first `position` tokens. */
FOURFOLD_API ff_status ff_session_rewind(ff_session* session, int32_t position, ff_error* error);

/* Appends ids: one is a decode step, more are a prefill. FF_RESOURCE when they do not fit; nothing is evaluated then.
 */
FOURFOLD_API ff_status ff_eval(ff_session* session, const int32_t* ids, size_t count, ff_error* error);
/* The logits [vocabulary] after the last evaluated token, good until the session's next call; NULL before the first. */
FOURFOLD_API const float* ff_logits(const ff_session* session);

/* ---- Generation. ---- */

typedef struct ff_generate_options {
  size_t size;
  int32_t max_tokens;   /* -1: until the end of text or a full context */
  float temperature;    /* 0: the likeliest token, the lowest id among equals */
  int32_t top_k;        /* 0: off */
  float top_p;          /* 1: off */
  float min_p;          /* 0: off */
  float repeat_penalty; /* 1: off */
  int32_t repeat_last;  /* tokens that the penalty looks back on */
  uint64_t seed;
  int32_t ignore_eos; /* not 0: end-of-text ids do not end the generation */
} ff_generate_options;

typedef enum ff_finish {
  FF_FINISH_EOS = 0,     /* the model ended its text */
  FF_FINISH_LENGTH = 1,  /* max_tokens */
  FF_FINISH_CONTEXT = 2, /* the context is full */
  FF_FINISH_STOPPED = 3  /* the callback returned something else than 0 */
} ff_finish;

/* Called after each token with its id and the text that it completes: whole UTF-8 characters, perhaps none yet. Not 0
 * ends the generation. */
typedef int (*ff_token_callback)(void* user, int32_t id, const char* text, size_t bytes);

FOURFOLD_API void ff_generate_options_init(ff_generate_options* options);
/* Evaluates the prompt's ids (none: goes on from where the session is), then samples, reports and evaluates, one token
 * after another. `options`, `callback` and `finish` may be NULL. */
FOURFOLD_API ff_status ff_generate(ff_session* session, const int32_t* ids, size_t count,
                                   const ff_generate_options* options, ff_token_callback callback, void* user,
                                   ff_finish* finish, ff_error* error);

#ifdef __cplusplus
}
#endif
