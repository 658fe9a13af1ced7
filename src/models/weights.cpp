#include "models/weights.hpp"

#include <algorithm>

namespace fourfold {
namespace {

std::string shape_text(const std::vector<std::int64_t>& shape) {
  std::string text = "[";
  for (std::size_t i = 0; i < shape.size(); ++i) text += (i ? ", " : "") + std::to_string(shape[i]);
  return text + "]";
}

// Dimensions of 1 say nothing: a convolution's weights are [channels, 1, kernel] in one file, [channels, kernel] in
// another.
std::vector<std::int64_t> squeezed(std::vector<std::int64_t> shape) {
  std::erase(shape, 1);
  return shape;
}

// A vector may lie in rows: GGUF has the norms of groups so.
bool fits(const std::vector<std::int64_t>& found, const std::vector<std::int64_t>& expected) {
  if (expected.size() > 1) return squeezed(found) == squeezed(expected);
  std::int64_t numbers = 1;
  for (std::int64_t n : found)
    if (n < 0 || n > expected[0] || (numbers *= n) > expected[0]) return false;
  return numbers == expected[0];
}

}  // namespace

Weight Weights::take(const std::string& name, const std::vector<std::int64_t>& shape, bool optional, float add) {
  const std::string full = prefix_ + name;
  if (const auto known = by_name_.find(full); known != by_name_.end()) return known->second;
  const std::int64_t cols = shape.back(), rows = shape.size() > 1 ? shape[shape.size() - 2] : 1;
  const std::int64_t stack = shape.size() > 2 ? shape[0] : 1;
  const auto found = source_.find(full, shape, optional);
  if (!found) {
    if (optional) return {};
    errors_.push_back("tensor '" + source_.file_name(full) + "' is missing");
    return place(full,
                 {source_.file_name(full), Storage::f32, rows, cols, add, stack});  // so that the family can go on
  }
  used_.insert(found->file_name);
  TensorSpec spec{found->file_name, found->storage.value_or(Storage::f32), rows, cols, add, stack};
  if (!fits(found->shape, shape))
    errors_.push_back("tensor '" + spec.name + "' has shape " + shape_text(found->shape) + ", expected " +
                      shape_text(shape));
  else if (!found->storage)
    errors_.push_back("tensor '" + spec.name + "' has type " + found->type_name +
                      ", which this build cannot compute with");
  else if (cols % info(spec.storage).block_elements != 0)
    errors_.push_back("tensor '" + spec.name + "' has rows of " + std::to_string(cols) +
                      " elements, not a multiple of " + std::to_string(info(spec.storage).block_elements) + " as " +
                      std::string(info(spec.storage).name) + " needs");
  return place(full, std::move(spec));
}

Weight Weights::joined(const std::vector<Piece>& pieces, std::int64_t cols) {
  TensorSpec spec{prefix_, Storage::f32, 0, cols};
  std::vector<std::string> files;
  std::int64_t expected = 0;
  for (const Piece& piece : pieces) {
    const std::string name = prefix_ + piece.name + ".weight";
    const auto found = source_.find(name, {piece.rows, cols}, false);
    if (!found || !found->storage) return {};
    const auto shape = squeezed(found->shape);
    if (shape.size() != 2 || shape[1] != cols) return {};
    if (!files.empty() && *found->storage != spec.storage) return {};
    spec.storage = *found->storage;
    spec.name += (files.empty() ? "" : "+") + std::string(piece.name);
    spec.parts.push_back({found->file_name, 0, shape[0], 1});
    spec.rows += shape[0];
    expected += piece.rows;
    files.push_back(found->file_name);
  }
  if (spec.rows != expected || cols % info(spec.storage).block_elements != 0) return {};
  used_.insert(files.begin(), files.end());
  const std::string key = spec.name;
  return place(key, std::move(spec));
}

Weight Weights::place(const std::string& key, TensorSpec spec) {
  specs_.push_back(std::move(spec));
  return by_name_[key] = Weight{static_cast<int>(specs_.size()) - 1};
}

// One of the tensors that a weight is made from, of exactly this shape.
std::optional<TensorSource::Found> Weights::look(const std::string& file_name, const std::vector<std::int64_t>& shape) {
  auto found = source_.find_file(file_name);
  if (!found) {
    errors_.push_back("tensor '" + file_name + "' is missing");
    return {};
  }
  used_.insert(file_name);
  if (squeezed(found->shape) == squeezed(shape)) return found;
  errors_.push_back("tensor '" + file_name + "' has shape " + shape_text(found->shape) + ", expected " +
                    shape_text(shape));
  return {};
}

Weight Weights::matrix(const std::string& name, std::int64_t rows, std::int64_t cols) {
  return take(name + ".weight", {rows, cols}, false);
}

Weight Weights::tensor(const std::string& name, std::int64_t rows, std::int64_t cols, bool optional) {
  return take(name, rows == 1 ? std::vector{cols} : std::vector{rows, cols}, optional);
}

Weight Weights::heads(const std::string& name, const HeadRows& at, std::int64_t cols, bool turned) {
  const std::string label = name + ".weight", full = prefix_ + label;
  const std::string key = full + "#" + std::to_string(at.first) + (turned ? " turned" : "");
  if (const auto known = by_name_.find(key); known != by_name_.end()) return known->second;
  const bool whole_in_use = by_name_.contains(full);
  TensorSpec spec = specs_[static_cast<std::size_t>(take(label, {at.heads * at.stride, cols}, false).id)];
  if (!whole_in_use) {
    specs_.pop_back();
    by_name_.erase(full);
  }
  for (std::int64_t h = 0; h < at.heads; ++h) spec.parts.push_back({spec.name, h * at.stride + at.first, at.count});
  spec.stack = at.heads;
  spec.rows = turned ? cols : at.count;
  spec.cols = turned ? at.count : cols;
  if (turned) spec.layout = TensorLayout::turned;
  if (turned && info(spec.storage).block_elements > 1) spec.storage = Storage::f32;
  specs_.push_back(std::move(spec));
  return by_name_[key] = Weight{static_cast<int>(specs_.size()) - 1};
}

Weight Weights::turned(Weight stack) {
  TensorSpec spec = specs_[static_cast<std::size_t>(stack.id)];
  for (std::int64_t m = 0; m < spec.stack; ++m) spec.parts.push_back({spec.name, m * spec.rows, spec.rows});
  std::swap(spec.rows, spec.cols);
  spec.layout = TensorLayout::turned;
  if (info(spec.storage).block_elements > 1) spec.storage = Storage::f32;
  specs_.push_back(std::move(spec));
  return Weight{static_cast<int>(specs_.size()) - 1};
}

Weight Weights::head_rows(const std::string& name, const HeadRows& at, std::int64_t cols) {
  const Weight weight = heads(name, at, cols);
  TensorSpec& spec = specs_[static_cast<std::size_t>(weight.id)];
  spec.rows = at.heads * at.count;
  spec.stack = 1;
  return weight;
}

Dot Weights::dot(const std::string& name, std::int64_t rows, std::int64_t cols, std::optional<bool> bias) {
  const Weight weight = matrix(name, rows, cols);
  const bool scaled = specs_[static_cast<std::size_t>(weight.id)].storage == Storage::fp8;
  return {weight, bias == false ? Weight{} : take(name + ".bias", {rows}, !bias), 1,
          scaled ? take(name + ".scale", {rows}, false) : Weight{}};
}

Weight Weights::experts(const std::string& name, std::int64_t experts, std::int64_t rows, std::int64_t cols) {
  const std::string full = prefix_ + name + ".weight", pattern = source_.file_name(full);
  const std::size_t star = pattern.find('*');
  if (star == std::string::npos) return take(name + ".weight", {experts, rows, cols}, false);
  TensorSpec spec{pattern, Storage::f32, rows, cols, 0, experts};
  std::optional<Storage> storage;
  for (std::int64_t e = 0; e < experts; ++e) {
    const std::string file = std::string(pattern).replace(star, 1, std::to_string(e));
    const auto found = look(file, {rows, cols});
    if (!found) break;  // the experts are alike
    if (e == 0) storage = found->storage;
    if (!found->storage || found->storage != storage || cols % info(*storage).block_elements != 0) {
      errors_.push_back("tensor '" + file + "' has type " + found->type_name + "; expected one that all experts share");
      break;
    }
    spec.parts.push_back({file, 0, rows, 1});
  }
  spec.storage = storage.value_or(Storage::f32);
  return place(full, std::move(spec));
}

Weight Weights::experts_bias(const std::string& name, std::int64_t experts, std::int64_t rows) {
  return take(name + ".bias", {experts, rows}, false);
}

bool Weights::has(const std::string& name) const {
  const std::string file = source_.file_name(prefix_ + name);
  return source_.find_file(file) || source_.find_file(file + "_blocks");
}

Weight Weights::fused(const Fused& from, std::int64_t experts, std::int64_t rows, std::int64_t cols) {
  const std::string file = source_.file_name(prefix_ + from.tensor);
  TensorSpec spec{file, Storage::f32, rows, cols, 0, experts};
  if (source_.find_file(file + "_blocks")) {
    spec.storage = Storage::mxfp4;
    spec.layout = TensorLayout::mxfp4_pair;
    const auto blocks = look(file + "_blocks", {experts, from.file_rows, cols / 32, 16});
    const auto scales = look(file + "_scales", {experts, from.file_rows, cols / 32});
    for (const auto& found : {blocks, scales})
      if (found && found->type_name != "U8")
        errors_.push_back("tensor '" + found->file_name + "' has type " + found->type_name + "; expected U8");
  } else {
    const std::vector<std::int64_t> shape = cols == 1         ? std::vector{experts, from.file_rows}  // a bias
                                            : from.transposed ? std::vector{experts, cols, from.file_rows}
                                                              : std::vector{experts, from.file_rows, cols};
    const auto found = look(file, shape);
    spec.layout = from.transposed ? TensorLayout::columns : TensorLayout::rows;
    const std::int64_t block = from.transposed ? 1 : cols;  // whole rows may be of blocks
    if (found && (!found->storage || block % info(*found->storage).block_elements != 0))
      errors_.push_back("tensor '" + file + "' has type " + found->type_name +
                        (from.transposed ? "; expected f32, f16 or bf16"
                                         : "; expected one whose blocks divide rows of " + std::to_string(cols)));
    else if (found)
      spec.storage = *found->storage;
  }
  for (std::int64_t e = 0; e < experts; ++e)
    spec.parts.push_back({file, e * from.file_rows + from.first, rows, from.stride});
  return place(prefix_ + from.tensor + "#" + std::to_string(from.first), std::move(spec));
}

NormSpec Weights::norm(const std::string& name, std::int64_t width, float eps, float add) {
  return {take(name + ".weight", {width}, false, add), eps};
}

Weight Weights::output_or_tied(std::optional<bool> tied, Weight table) {
  const auto [rows, cols] =
      std::pair{specs_[static_cast<std::size_t>(table.id)].rows, specs_[static_cast<std::size_t>(table.id)].cols};
  if (tied.value_or(false)) {
    ignore(source_.file_name("output.weight"));
    return table;
  }
  const Weight output = take("output.weight", {rows, cols}, !tied.has_value());
  return output.valid() ? output : table;
}

std::vector<float> Weights::values(const std::string& name, std::int64_t count) {
  const auto found = source_.find(name + ".weight", {count}, true);
  if (!found) return {};
  used_.insert(found->file_name);
  if (found->shape != std::vector{count}) {
    errors_.push_back("tensor '" + found->file_name + "' has shape " + shape_text(found->shape) + ", expected " +
                      shape_text({count}));
    return {};
  }
  auto floats = source_.floats(found->file_name);
  if (!floats.ok()) errors_.push_back(floats.error().message());
  return floats.ok() ? std::move(floats).value() : std::vector<float>{};
}

status Weights::finish() const {
  std::vector<std::string> errors = errors_;
  const auto ignored = [&](const std::string& name) {
    return std::any_of(ignored_.begin(), ignored_.end(), [&](const std::string& pattern) {
      return pattern.ends_with('*')     ? name.starts_with(pattern.substr(0, pattern.size() - 1))
             : pattern.starts_with('*') ? name.ends_with(pattern.substr(1))
                                        : name == pattern;
    });
  };
  for (const std::string& name : source_.all())
    if (!used_.contains(name) && !ignored(name))
      errors.push_back("tensor '" + name + "' is not part of this family: refused rather than ignored");
  if (errors.empty()) return {};
  constexpr std::size_t kShown = 12;
  std::string message = errors[0];
  for (std::size_t i = 1; i < std::min(errors.size(), kShown); ++i) message += "\n" + errors[i];
  if (errors.size() > kShown) message += "\n... and " + std::to_string(errors.size() - kShown) + " more";
  return {Code::unsupported, message};
}

}  // namespace fourfold
