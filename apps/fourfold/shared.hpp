// Options that several verbs share, and opening what they name.
#pragma once

#include <fourfold/session.hpp>
#include <string>
#include <vector>

#include "options.hpp"

namespace fourfold::cli {

// Accepted by every verb, used by those that compute.
struct Everywhere {
  std::string executor = "team";
  int device = 0;   // of the executors that compute on one
  int threads = 0;  // 0: the physical cores this process may use
  bool json = false;

  bool on_device() const { return executor == "graph" || executor == "stream" || executor == "persistent"; }
};
// `arms`: --executor takes a list of them, the first of which is everywhere.executor.
void declare_everywhere(Options& options, Everywhere& everywhere, std::vector<std::string>* arms = nullptr);

std::vector<std::string> split(const std::string& list);  // at commas

void declare_model(Options& options, std::string& path);

// How a Session computes.
struct Computing {
  bool f32 = false;
  std::string cache;  // empty: f16, or f32 with `f32`
  int context = 0;
  int batch = 512;
};
void declare_computing(Options& options, Computing& computing);
void declare_cache(Options& options, Computing& computing);  // --cache and --f32 alone

SessionOptions session_options(const Everywhere& everywhere, const Computing& computing);

// A Session of the model, with a progress bar while its weights load.
result<Session> try_session(const Model& model, SessionOptions options);
Session open_session(const Model& model, SessionOptions options);

void declare_sampling(Options& options, SamplingOptions& sampling);

}  // namespace fourfold::cli
