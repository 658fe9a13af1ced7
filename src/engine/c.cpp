// The C interface over Model and Session: checks pointers, translates options and statuses, lets no exception out.
#include "fourfold/c.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <exception>
#include <new>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "fourfold/session.hpp"

struct ff_model {
  fourfold::Model model;
};

struct ff_session {
  fourfold::Session session;
  bool evaluated = false;  // whether there are logits
};

namespace {

using fourfold::Code;
using fourfold::status;
using fourfold::Storage;

static_assert(sizeof(int) == sizeof(std::int32_t));
static_assert(static_cast<int>(Code::cancelled) == FF_CANCELLED);

ff_status report(ff_error* error, Code code, std::string_view message) {
  const auto value = static_cast<ff_status>(code);
  if (error) {
    std::size_t length = std::min(message.size(), sizeof error->message - 1);
    if (length < message.size())
      while (length > 0 && (static_cast<unsigned char>(message[length]) & 0xC0) == 0x80) --length;
    error->status = value;
    std::memcpy(error->message, message.data(), length);
    error->message[length] = '\0';
  }
  return value;
}

// Runs the body of a function of the interface: body() gives a status.
template <class Body>
ff_status guarded(ff_error* error, Body&& body) noexcept {
  try {
    const status done = body();
    return report(error, done.code(), done.message());
  } catch (const std::bad_alloc&) {
    return report(error, Code::resource, "out of memory");
  } catch (const std::exception& exception) {
    return report(error, Code::unsupported, exception.what());
  }
}

status need(const void* pointer, const char* name) {
  if (pointer) return {};
  return {Code::invalid_argument, std::string(name) + " is NULL"};
}

// The defaults, overwritten by as much as the caller's struct has.
template <class Options>
status take(const Options* given, void (*init)(Options*), Options& options) {
  init(&options);
  if (!given) return {};
  if (given->size < sizeof given->size || given->size > sizeof options)
    return {Code::invalid_argument, "options.size is " + std::to_string(given->size) + "; this library knows " +
                                        std::to_string(sizeof options) + " bytes (call the _init function first)"};
  std::memcpy(&options, given, given->size);
  return {};
}

// Stores items where capacity allows; always tells their number.
template <class Item>
status store(std::span<const Item> items, Item* out, std::size_t capacity, std::size_t* count) {
  *count = items.size();
  if (capacity == 0) return {};
  if (items.size() > capacity)
    return {Code::invalid_argument,
            "capacity is " + std::to_string(capacity) + ", needed are " + std::to_string(items.size())};
  FOURFOLD_TRY(need(out, "the output"));
  std::copy(items.begin(), items.end(), out);
  return {};
}

status session_options(const ff_session_options& given, fourfold::SessionOptions& options) {
  constexpr std::array<std::optional<Storage>, 5> kCaches = {std::nullopt, Storage::f32, Storage::f16, Storage::bf16,
                                                             Storage::q8_0};
  unsigned cache = 0;  // as bytes: C may have put any number there
  static_assert(sizeof cache == sizeof given.cache);
  std::memcpy(&cache, &given.cache, sizeof cache);
  if (cache >= kCaches.size())
    return {Code::invalid_argument, "cache is " + std::to_string(cache) +
                                        ", accepted are FF_CACHE_DEFAULT (0) to "
                                        "FF_CACHE_Q8_0 (4)"};
  options.context = given.context;
  options.threads = given.threads;
  options.f32 = given.f32 != 0;
  options.cache = kCaches[cache];
  if (given.executor) options.executor = given.executor;
  return {};
}

fourfold::GenerateOptions generate_options(const ff_generate_options& given) {
  fourfold::GenerateOptions options;
  options.max_tokens = given.max_tokens;
  options.ignore_eos = given.ignore_eos != 0;
  options.sampling.temperature = given.temperature;
  options.sampling.top_k = given.top_k;
  options.sampling.top_p = given.top_p;
  options.sampling.min_p = given.min_p;
  options.sampling.repeat_penalty = given.repeat_penalty;
  options.sampling.repeat_last_n = given.repeat_last;
  if (given.seed >= 0) options.sampling.seed = static_cast<std::uint64_t>(given.seed);
  return options;
}

ff_finish finish_of(fourfold::Finish finish) {
  switch (finish) {
    case fourfold::Finish::eos:
      return FF_FINISH_EOS;
    case fourfold::Finish::length:
      return FF_FINISH_LENGTH;
    case fourfold::Finish::context:
      return FF_FINISH_CONTEXT;
    default:
      return FF_FINISH_STOPPED;
  }
}

}  // namespace

const char* ff_version(void) { return FOURFOLD_VERSION; }

ff_status ff_model_load(const char* path, ff_model** model, ff_error* error) {
  return guarded(error, [&]() -> status {
    FOURFOLD_TRY(need(path, "path"));
    FOURFOLD_TRY(need(model, "model"));
    auto loaded = fourfold::load(path);
    if (!loaded) return loaded.error();
    *model = new ff_model{std::move(*loaded)};
    return {};
  });
}

void ff_model_free(ff_model* model) { delete model; }

const char* ff_model_family(const ff_model* model) { return model->model.program().family.c_str(); }
int32_t ff_model_vocab(const ff_model* model) { return model->model.vocab(); }
int32_t ff_model_context(const ff_model* model) { return model->model.context(); }

ff_status ff_tokenize(const ff_model* model, const char* text, size_t bytes, unsigned flags, int32_t* ids,
                      size_t capacity, size_t* count, ff_error* error) {
  return guarded(error, [&]() -> status {
    FOURFOLD_TRY(need(model, "model"));
    FOURFOLD_TRY(need(count, "count"));
    if (bytes > 0) FOURFOLD_TRY(need(text, "text"));
    fourfold::TokenizeOptions options;
    if (flags & FF_TOKENIZE_NO_BOS) options.bos = false;
    if (flags & FF_TOKENIZE_BOS) options.bos = true;
    options.special = (flags & FF_TOKENIZE_SPECIAL) != 0;
    const auto found = model->model.tokenize({text, bytes}, options);
    if (!found) return found.error();
    return store(std::span<const int>(found.value()), ids, capacity, count);
  });
}

ff_status ff_detokenize(const ff_model* model, const int32_t* ids, size_t count, char* text, size_t capacity,
                        size_t* bytes, ff_error* error) {
  return guarded(error, [&]() -> status {
    FOURFOLD_TRY(need(model, "model"));
    FOURFOLD_TRY(need(bytes, "bytes"));
    if (count > 0) FOURFOLD_TRY(need(ids, "ids"));
    const auto found = model->model.detokenize({ids, count});
    if (!found) return found.error();
    return store(std::span<const char>(found.value()), text, capacity, bytes);
  });
}

void ff_session_options_init(ff_session_options* options) {
  *options = {};
  options->size = sizeof *options;
}

ff_status ff_session_create(const ff_model* model, const ff_session_options* options, ff_session** session,
                            ff_error* error) {
  return guarded(error, [&]() -> status {
    FOURFOLD_TRY(need(model, "model"));
    FOURFOLD_TRY(need(session, "session"));
    ff_session_options given;
    fourfold::SessionOptions wanted;
    FOURFOLD_TRY(take(options, ff_session_options_init, given));
    FOURFOLD_TRY(session_options(given, wanted));
    auto made = model->model.session(wanted);
    if (!made) return made.error();
    *session = new ff_session{std::move(*made)};
    return {};
  });
}

ff_status ff_session_fork(const ff_session* session, ff_session** copy, ff_error* error) {
  return guarded(error, [&]() -> status {
    FOURFOLD_TRY(need(session, "session"));
    FOURFOLD_TRY(need(copy, "copy"));
    auto made = session->session.fork();
    if (!made) return made.error();
    *copy = new ff_session{std::move(*made), session->evaluated};
    return {};
  });
}

void ff_session_free(ff_session* session) { delete session; }

int32_t ff_session_position(const ff_session* session) { return session->session.position(); }
int32_t ff_session_context(const ff_session* session) { return session->session.context(); }

ff_status ff_session_rewind(ff_session* session, int32_t position, ff_error* error) {
  return guarded(error, [&]() -> status {
    FOURFOLD_TRY(need(session, "session"));
    session->evaluated = false;
    return session->session.rewind(position);
  });
}

ff_status ff_session_save(const ff_session* session, const char* path, ff_error* error) {
  return guarded(error, [&]() -> status {
    FOURFOLD_TRY(need(session, "session"));
    FOURFOLD_TRY(need(path, "path"));
    return session->session.save(path);
  });
}

ff_status ff_session_restore(ff_session* session, const char* path, ff_error* error) {
  return guarded(error, [&]() -> status {
    FOURFOLD_TRY(need(session, "session"));
    FOURFOLD_TRY(need(path, "path"));
    session->evaluated = false;
    return session->session.restore(path);
  });
}

ff_status ff_eval(ff_session* session, const int32_t* ids, size_t count, ff_error* error) {
  return guarded(error, [&]() -> status {
    FOURFOLD_TRY(need(session, "session"));
    FOURFOLD_TRY(need(ids, "ids"));
    FOURFOLD_TRY(session->session.eval({ids, count}));
    session->evaluated = true;
    return {};
  });
}

const float* ff_logits(const ff_session* session) {
  return session->evaluated ? session->session.logits().data() : nullptr;
}

void ff_generate_options_init(ff_generate_options* options) {
  const fourfold::SamplingOptions sampling;
  *options = {};
  options->size = sizeof *options;
  options->max_tokens = -1;
  options->temperature = sampling.temperature;
  options->top_k = sampling.top_k;
  options->top_p = sampling.top_p;
  options->min_p = sampling.min_p;
  options->repeat_penalty = sampling.repeat_penalty;
  options->repeat_last = sampling.repeat_last_n;
  options->seed = -1;
}

ff_status ff_generate(ff_session* session, const int32_t* ids, size_t count, const ff_generate_options* options,
                      ff_token_callback callback, void* user, ff_finish* finish, ff_error* error) {
  return guarded(error, [&]() -> status {
    FOURFOLD_TRY(need(session, "session"));
    if (count > 0) FOURFOLD_TRY(need(ids, "ids"));
    ff_generate_options given;
    FOURFOLD_TRY(take(options, ff_generate_options_init, given));
    auto generation = session->session.generate(std::span<const int>(ids, count), generate_options(given));
    bool stopped = false;
    while (!stopped) {
      const auto piece = generation.next();
      if (!piece) break;
      session->evaluated = true;
      const auto made = generation.ids();
      if (callback) stopped = callback(user, made.empty() ? -1 : made.back(), piece->data(), piece->size()) != 0;
    }
    if (finish) *finish = stopped ? FF_FINISH_STOPPED : finish_of(generation.finish());
    return generation.error();
  });
}
