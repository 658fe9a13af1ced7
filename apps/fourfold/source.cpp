#include "source.hpp"

#include <algorithm>
#include <array>

#include "exit.hpp"
#include "figures.hpp"
#include "formats/checkpoint.hpp"
#include "formats/message.hpp"
#include "models/family.hpp"
#include "shared.hpp"

namespace fourfold::cli {
namespace {

void check(const Source& source, const std::string& verb) {
  if (source.model.empty() == source.shape.empty())
    misuse(verb + ": which model? accepted: either -m MODEL or --shape NAME");
}

double elements(const TensorSpec& tensor) {
  if (tensor.layout == TensorLayout::turned) return 0;  // a copy
  return static_cast<double>(tensor.stack) * static_cast<double>(tensor.rows) * static_cast<double>(tensor.cols);
}

}  // namespace

void declare_source(Options& options, Source& source) {
  options.text("-m,--model MODEL", source.model, "a .gguf, or a folder with config.json and safetensors");
  options.text("--shape NAME", source.shape, "a published model's shape with random weights: llama-3.2-1b, ...");
  options.choice("--dtype TYPE", source.dtype,
                 {"f32", "f16", "bf16", "q4_0", "q4_1", "q5_0", "q5_1", "q8_0", "q4_k", "q5_k", "q6_k", "mxfp4", "fp8",
                  "int4", "nvfp4"},
                 "storage of the shape's matrices; default bf16");
}

void declare_sources(Options& options, Source& source) {
  options.text("-m,--model MODEL", source.model, "a .gguf, or a folder with config.json and safetensors");
  options.text("--shape LIST", source.shape, "published models' shapes with random weights: llama-3.2-1b, ...");
  options.text("--dtype LIST", source.dtype, "storages of the shapes' matrices: bf16 (default), fp8, q8_0, int4, ...");
}

std::vector<Source> each_source(const Source& lists, const std::string& verb) {
  check(lists, verb);
  if (lists.shape.empty()) return {lists};
  std::vector<Source> all;
  for (const std::string& shape : split(lists.shape))
    for (const std::string& dtype : split(lists.dtype)) {
      if (!storage_from_name(dtype))
        misuse(verb + ": --dtype: '" + one_line(dtype) +
               "' is not a storage; accepted: f32, f16, bf16, q4_0, ..., fp8, int4, mxfp4, nvfp4");
      all.push_back({"", shape, dtype});
    }
  return all;
}

Program read_program(const Source& source, const std::string& verb) {
  check(source, verb);
  if (source.model.empty()) return must(make_shape_model(source.shape, *storage_from_name(source.dtype))).program;
  const Checkpoint file = must(open_checkpoint(source.model));
  auto spec = read_model(file);
  if (!spec.ok()) must(in_file(file.name(), spec.error()));
  return must(std::move(spec)).program;
}

Model open_model(const Source& source, const std::string& verb) {
  check(source, verb);
  if (!source.model.empty()) return must(load(source.model));
  return must(make_random_model(source.shape, *storage_from_name(source.dtype)));
}

double parameters(const Program& program) {
  double sum = 0;
  for (const TensorSpec& tensor : program.tensors) sum += elements(tensor);
  return sum;
}

std::string described(const Program& program) {
  std::array<double, kStorages.size()> numbers{};
  for (const TensorSpec& tensor : program.tensors)
    numbers[static_cast<std::size_t>(tensor.storage)] += elements(tensor);
  const auto most = std::max_element(numbers.begin(), numbers.end()) - numbers.begin();
  return program.family + " " + in_thousands(parameters(program)) + " " +
         std::string(kStorages[static_cast<std::size_t>(most)].name);
}

std::string without_layer(const std::string& name) {
  if (!name.starts_with("blk.")) return name;
  const auto dot = name.find('.', 4);
  return dot == std::string::npos ? name : name.substr(dot + 1);
}

}  // namespace fourfold::cli
