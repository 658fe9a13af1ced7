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

}  // namespace

Weight Weights::take(const std::string& name, const std::vector<std::int64_t>& shape, bool optional, float add) {
  const std::string full = prefix_ + name;
  if (const auto known = by_name_.find(full); known != by_name_.end()) return known->second;
  const std::int64_t cols = shape.back(), rows = shape.size() > 1 ? shape[0] : 1;
  const auto place = [&](TensorSpec spec) {
    specs_.push_back(std::move(spec));
    return by_name_[full] = Weight{static_cast<int>(specs_.size()) - 1};
  };
  const auto found = source_.find(full, shape, optional);
  if (!found) {
    if (optional) return {};
    errors_.push_back("tensor '" + source_.file_name(full) + "' is missing");
    return place({source_.file_name(full), Storage::f32, rows, cols, add});  // so that the family can go on
  }
  used_.insert(found->file_name);
  TensorSpec spec{found->file_name, found->storage.value_or(Storage::f32), rows, cols, add};
  if (squeezed(found->shape) != squeezed(shape))
    errors_.push_back("tensor '" + spec.name + "' has shape " + shape_text(found->shape) + ", expected " +
                      shape_text(shape));
  else if (!found->storage)
    errors_.push_back("tensor '" + spec.name + "' has type " + found->type_name +
                      ", which this build cannot compute with");
  else if (cols % info(spec.storage).block_elements != 0)
    errors_.push_back("tensor '" + spec.name + "' has rows of " + std::to_string(cols) +
                      " elements, not a multiple of " + std::to_string(info(spec.storage).block_elements) + " as " +
                      std::string(info(spec.storage).name) + " needs");
  return place(std::move(spec));
}

Weight Weights::matrix(const std::string& name, std::int64_t rows, std::int64_t cols) {
  return take(name + ".weight", {rows, cols}, false);
}

Weight Weights::tensor(const std::string& name, std::int64_t rows, std::int64_t cols, bool optional) {
  return take(name, rows == 1 ? std::vector{cols} : std::vector{rows, cols}, optional);
}

Dot Weights::dot(const std::string& name, std::int64_t rows, std::int64_t cols, std::optional<bool> bias) {
  const Weight weight = matrix(name, rows, cols);
  const bool scaled = specs_[static_cast<std::size_t>(weight.id)].storage == Storage::fp8;
  return {weight, bias == false ? Weight{} : take(name + ".bias", {rows}, !bias), 1,
          scaled ? take(name + ".scale", {rows}, false) : Weight{}};
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
