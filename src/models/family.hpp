// Family: one file per model family turns hyper-parameters into a Program. This table is how files find theirs.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "fourfold/program.hpp"
#include "fourfold/status.hpp"
#include "models/hyper.hpp"
#include "models/keys.hpp"
#include "models/weights.hpp"

namespace fourfold {

class Checkpoint;
struct NamedShape;

struct Family {
  std::string_view name;
  std::string_view gguf;                      // general.architecture; empty: a GGUF file has another name for it
  std::span<const std::string_view> configs;  // config.json model_type
  void (*read_gguf)(Keys&, Hyper&);           // errors stay in Keys
  void (*read_config)(Keys&, Hyper&);
  Program (*build)(const Hyper&, Weights&);     // errors stay in Weights
  void (*complete)(const NamedShape&, Hyper&);  // what a named shape leaves to the family; null: nothing
  // Names of a safetensors file that differ from the common ones: {GGUF stem, file stem} pairs.
  std::span<const std::pair<std::string_view, std::string_view>> names;
};

std::span<const Family> families();

// A model's hyper-parameters and Program, from a file's metadata and tensor list (no weight is read).
struct ModelSpec {
  const Family* family = nullptr;
  Hyper hyper;
  Program program;
};
result<ModelSpec> read_model(const Checkpoint& checkpoint);
// From a named shape alone (shapes.hpp), every matrix in `storage`.
result<ModelSpec> make_shape_model(std::string_view shape, Storage storage);
result<ModelSpec> make_shape_model(const NamedShape& shape, Storage storage);

}  // namespace fourfold
