// Model::State: what copies of a Model share. Backends (resident weights) are made when a Session first asks.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "formats/checkpoint.hpp"
#include "fourfold/session.hpp"
#include "models/family.hpp"
#include "program/backend.hpp"
#include "text/tokenizer.hpp"

namespace fourfold {

struct FOURFOLD_LOCAL Model::State {
  std::string path;
  std::shared_ptr<const Checkpoint> checkpoint;  // null for a named shape
  ModelSpec spec;
  std::shared_ptr<const WeightBytes> bytes;
  result<Tokenizer> tokenizer = status{Code::not_found, "a named shape has no vocabulary"};

  // The weights for one kind of execution, shared with the Sessions that use them.
  result<std::shared_ptr<Backend>> backend(const SessionOptions& options);

 private:
  std::mutex guard_;
  std::map<std::string, std::weak_ptr<Backend>> backends_;
};

}  // namespace fourfold
