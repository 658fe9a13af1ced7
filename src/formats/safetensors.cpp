// Reading safetensors (format: the safetensors repository's README): size:u64, `size` bytes of JSON
// {"name": {"dtype": "F32", "shape": [rows, columns], "data_offsets": [begin, end]}, "__metadata__": {...}}, then the
// data, to whose first byte the offsets are relative. The tensors must cover the data without holes or overlaps.
#include "formats/safetensors.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <optional>
#include <unordered_set>

#include "formats/json_events.hpp"
#include "formats/layout.hpp"
#include "formats/message.hpp"

namespace fourfold {
namespace {

static_assert(std::endian::native == std::endian::little, "the header's size is read as it lies in memory");

constexpr std::uint64_t kLargestHeader = std::uint64_t{32} << 20;

struct Dtype {
  std::string_view name;
  std::uint64_t bytes;
  std::optional<Storage> storage;
};
constexpr Dtype kDtypes[] = {
    {"F32", 4, Storage::f32},
    {"F16", 2, Storage::f16},
    {"BF16", 2, Storage::bf16},
    {"F64", 8, {}},
    {"I64", 8, {}},
    {"I32", 4, {}},
    {"I16", 2, {}},
    {"I8", 1, {}},
    {"U64", 8, {}},
    {"U32", 4, {}},
    {"U16", 2, {}},
    {"U8", 1, {}},
    {"BOOL", 1, {}},
    {"C64", 8, {}},
    {"F8_E4M3", 1, {}},
    {"F8_E5M2", 1, {}},
    {"F8_E8M0", 1, {}},
};

const Dtype* dtype_named(std::string_view name) {
  for (const auto& row : kDtypes)
    if (row.name == name) return &row;
  return nullptr;
}

// One tensor as the header describes it, fields missing until met.
struct Entry {
  std::optional<std::string> dtype;
  std::optional<std::vector<std::int64_t>> shape;
  std::optional<std::vector<std::uint64_t>> offsets;
};

// Turns a complete entry into a TensorInfo whose offset is relative to the data.
status describe(const Entry& entry, TensorInfo& tensor) {
  const auto lacking = !entry.dtype ? "dtype" : !entry.shape ? "shape" : !entry.offsets ? "data_offsets" : nullptr;
  if (lacking != nullptr) return {Code::malformed, std::string("field '") + lacking + "' is missing"};
  const auto& offsets = *entry.offsets;
  if (offsets.size() != 2 || offsets[0] > offsets[1]) {
    std::string met;
    for (std::size_t i = 0; i < std::min<std::size_t>(offsets.size(), 3); ++i)
      met += (i > 0 ? ", " : "") + std::to_string(offsets[i]);
    return {Code::malformed, "'data_offsets' is [" + met + (offsets.size() > 3 ? ", ..." : "") +
                                 "]; expected [begin, end] with begin <= end"};
  }
  tensor.shape = *entry.shape;
  tensor.type_name = *entry.dtype;
  tensor.offset = offsets[0];
  tensor.bytes = offsets[1] - offsets[0];
  const Dtype* dtype = dtype_named(*entry.dtype);
  if (dtype == nullptr) return {};
  tensor.storage = dtype->storage;
  std::uint64_t expected = 0;
  FOURFOLD_TRY(tensor_bytes(tensor.shape, 1, dtype->bytes, expected));
  if (expected == tensor.bytes) return {};
  return {Code::malformed,
          "its shape and dtype take " + grouped(expected) + " bytes, its 'data_offsets' span " + grouped(tensor.bytes)};
}

class HeaderEvents : public JsonEvents {
 public:
  explicit HeaderEvents(std::vector<TensorInfo>& out) : out_(out) {}

  bool null() override { return unexpected("null"); }
  bool boolean(bool value) override { return unexpected(value ? "true" : "false"); }
  bool integer(std::int64_t value) override { return unexpected(std::to_string(value)); }
  bool number(double, std::string_view token) override { return unexpected(std::string(token)); }
  bool unsigned_integer(std::uint64_t value) override {
    if (!in_array_) return unexpected(std::to_string(value));
    if (field_ == Field::offsets) {
      entry_.offsets->push_back(value);
      return true;
    }
    if (value > std::numeric_limits<std::int64_t>::max()) return unexpected(std::to_string(value));
    entry_.shape->push_back(static_cast<std::int64_t>(value));
    return true;
  }
  bool string(std::string& value) override {
    if (in_metadata_ && depth() == 2) return true;
    if (field_ != Field::dtype) return unexpected(quote(value));
    entry_.dtype = std::move(value);
    field_ = Field::none;
    return true;
  }
  bool begin_object() override {
    if (depth() > 1 || in_array_) return unexpected("an object");
    entry_ = {};
    return true;
  }
  bool key(std::string& key) override {
    if (depth() == 1) return begin_entry(key);
    return in_metadata_ || begin_field(key);
  }
  bool end_object() override {
    if (depth() != 1) return true;
    if (std::exchange(in_metadata_, false)) return true;
    TensorInfo tensor;
    tensor.name = name_;
    const status described = describe(entry_, tensor);
    if (!described.ok()) return fail("tensor " + quote(name_) + ": " + described.message());
    out_.push_back(std::move(tensor));
    return true;
  }
  bool begin_array() override {
    const bool fits = (field_ == Field::shape || field_ == Field::offsets) && !in_array_;
    if (!fits) return unexpected("an array");
    in_array_ = true;
    return true;
  }
  bool end_array() override {
    in_array_ = false;
    field_ = Field::none;
    return true;
  }

 private:
  enum class Field { none, dtype, shape, offsets };

  bool begin_entry(const std::string& name) {
    if (!is_plain_name(name)) return fail("a tensor's name " + quote(name) + " is empty or not plain text");
    if (!names_.insert(name).second) return fail("tensor " + quote(name) + " stands there twice");
    name_ = name;
    in_metadata_ = name == "__metadata__";
    field_ = Field::none;
    return true;
  }
  bool begin_field(const std::string& field) {
    bool twice = false;
    if (field == "dtype") {
      twice = entry_.dtype.has_value();
      field_ = Field::dtype;
    } else if (field == "shape") {
      twice = entry_.shape.has_value();
      field_ = Field::shape;
      entry_.shape.emplace();
    } else if (field == "data_offsets") {
      twice = entry_.offsets.has_value();
      field_ = Field::offsets;
      entry_.offsets.emplace();
    } else {
      return fail("tensor " + quote(name_) + ": unknown field " + quote(field) +
                  "; expected dtype, shape and data_offsets");
    }
    return !twice || fail("tensor " + quote(name_) + ": field " + quote(field) + " stands there twice");
  }
  bool unexpected(const std::string& met) {
    if (depth() == 0) return fail("the header is " + met + "; expected an object of tensors");
    if (in_metadata_) return fail("'__metadata__' holds " + met + "; expected an object of strings");
    const std::string where = "tensor " + quote(name_) + ": ";
    switch (field_) {
      case Field::dtype:
        return fail(where + "'dtype' is " + met + "; expected a string");
      case Field::shape:
        return fail(where + "'shape' holds " + met + "; expected an array of integers from 0 to 2^63 - 1");
      case Field::offsets:
        return fail(where + "'data_offsets' holds " + met + "; expected [begin, end]");
      case Field::none:
        break;
    }
    return fail(where + "it is " + met + "; expected an object with dtype, shape and data_offsets");
  }

  std::vector<TensorInfo>& out_;
  std::unordered_set<std::string> names_;
  std::string name_;
  Entry entry_;
  Field field_ = Field::none;
  bool in_metadata_ = false, in_array_ = false;
};

// The tensors, sorted by place, must follow each other from byte `data` to the end of the file.
status check_coverage(const std::vector<TensorInfo>& tensors, std::uint64_t data, std::uint64_t file_size) {
  std::vector<const TensorInfo*> order;
  for (const TensorInfo& tensor : tensors) order.push_back(&tensor);
  std::sort(order.begin(), order.end(), [](const auto* a, const auto* b) {
    return a->offset != b->offset ? a->offset < b->offset : a->bytes < b->bytes;
  });
  std::uint64_t end = data;
  for (const TensorInfo* tensor : order) {
    if (tensor->offset != end) {
      return {Code::malformed, "tensor " + quote(tensor->name) + ": it begins at byte " + grouped(tensor->offset) +
                                   "; expected " + grouped(end) + ", where the data before it ends"};
    }
    end += tensor->bytes;
  }
  if (end == file_size) return {};
  return {Code::malformed, "the tensors end at byte " + grouped(end) + ", the file at " + grouped(file_size)};
}

status read_size(std::span<const std::byte> first, std::uint64_t file_size, std::uint64_t& size) {
  if (file_size < sizeof size)
    return {Code::malformed, "it has " + std::to_string(file_size) + " bytes; the header's size alone takes 8"};
  std::memcpy(&size, first.data(), sizeof size);
  if (size > file_size - sizeof size) {
    return {Code::malformed, "its header should take " + grouped(size) + " bytes; the file has " +
                                 grouped(file_size - sizeof size) + " after the size (truncated?)"};
  }
  if (size <= kLargestHeader) return {};
  return {Code::unsupported,
          "its header takes " + grouped(size) + " bytes; at most " + grouped(kLargestHeader) + " are read"};
}

result<std::vector<TensorInfo>> parse_header(std::string_view json, std::uint64_t file_size) {
  if (!json.starts_with('{')) return status(Code::malformed, "its header does not begin with '{'");
  std::vector<TensorInfo> tensors;
  HeaderEvents events(tensors);
  FOURFOLD_TRY(parse_json(json, events));
  const std::uint64_t data = sizeof(std::uint64_t) + json.size();
  FOURFOLD_TRY(place_tensors(tensors, data, file_size));
  FOURFOLD_TRY(check_coverage(tensors, data, file_size));
  return tensors;
}

}  // namespace

result<std::vector<TensorInfo>> parse_safetensors(std::span<const std::byte> file) {
  std::uint64_t size = 0;
  FOURFOLD_TRY(read_size(file, file.size(), size));
  return parse_header({reinterpret_cast<const char*>(file.data()) + sizeof size, size}, file.size());
}

result<std::vector<TensorInfo>> read_safetensors(const File& file) {
  std::byte first[sizeof(std::uint64_t)] = {};
  FOURFOLD_TRY(file.read_at(0, std::span(first).first(std::min<std::size_t>(sizeof first, file.size()))));
  std::uint64_t size = 0;
  FOURFOLD_TRY(in_file(file.name(), read_size(first, file.size(), size)));
  std::string json(size, '\0');
  FOURFOLD_TRY(file.read_at(sizeof size, std::as_writable_bytes(std::span(json))));
  auto tensors = parse_header(json, file.size());
  if (!tensors) return in_file(file.name(), tensors.error());
  return tensors;
}

}  // namespace fourfold
