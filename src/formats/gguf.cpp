// Reading a GGUF header: the key-value list, the tensor table, and the checks that the table describes disjoint,
// aligned ranges inside the file.
#include "formats/gguf.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <unordered_set>

#include "formats/gguf_cursor.hpp"
#include "formats/layout.hpp"
#include "formats/message.hpp"

namespace fourfold {
namespace {

static_assert(std::endian::native == std::endian::little, "GGUF numbers are read as they lie in memory");

constexpr std::size_t kLargestHeader = std::size_t{32} << 20;
constexpr std::uint32_t kLargestAlignment = 65536;

enum class ValueType : std::uint32_t { u8, i8, u16, i16, u32, i32, f32, boolean, string, array, u64, i64, f64 };

// Every tensor type with a known layout, whether or not it can be computed with: number, name, block elements, bytes.
struct TensorType {
  std::uint32_t number;
  std::string_view name;
  std::uint64_t elements, bytes;
};
constexpr TensorType kTensorTypes[] = {
    {0, "F32", 1, 4},         {1, "F16", 1, 2},         {2, "Q4_0", 32, 18},     {3, "Q4_1", 32, 20},
    {6, "Q5_0", 32, 22},      {7, "Q5_1", 32, 24},      {8, "Q8_0", 32, 34},     {10, "Q2_K", 256, 84},
    {11, "Q3_K", 256, 110},   {12, "Q4_K", 256, 144},   {13, "Q5_K", 256, 176},  {14, "Q6_K", 256, 210},
    {15, "Q8_K", 256, 292},   {16, "IQ2_XXS", 256, 66}, {17, "IQ2_XS", 256, 74}, {18, "IQ3_XXS", 256, 98},
    {19, "IQ1_S", 256, 50},   {20, "IQ4_NL", 32, 18},   {21, "IQ3_S", 256, 110}, {22, "IQ2_S", 256, 82},
    {23, "IQ4_XS", 256, 136}, {24, "I8", 1, 1},         {25, "I16", 1, 2},       {26, "I32", 1, 4},
    {27, "I64", 1, 8},        {28, "F64", 1, 8},        {29, "IQ1_M", 256, 56},  {30, "BF16", 1, 2},
    {34, "TQ1_0", 256, 54},   {35, "TQ2_0", 256, 66},   {39, "MXFP4", 32, 17},   {40, "NVFP4", 64, 36},
};

constexpr bool agrees_with_storages() {
  for (const auto& storage : kStorages)
    for (const auto& type : kTensorTypes)
      if (static_cast<std::uint32_t>(storage.gguf_type) == type.number &&
          (static_cast<std::uint64_t>(storage.block_elements) != type.elements ||
           static_cast<std::uint64_t>(storage.block_bytes) != type.bytes))
        return false;
  return true;
}
static_assert(agrees_with_storages());

const TensorType* tensor_type(std::uint32_t number) {
  for (const auto& row : kTensorTypes)
    if (row.number == number) return &row;
  return nullptr;
}

status read_bool(GgufCursor& in, std::uint8_t& out, const Where& where) {
  FOURFOLD_TRY(in.number(out, where));
  if (out > 1) return malformed_at(where, "a boolean is " + std::to_string(out) + "; expected 0 or 1");
  return {};
}

template <class T, class Held>
status read_scalar(GgufCursor& in, MetaValue& out, const Where& where) {
  T value{};
  FOURFOLD_TRY(in.number(value, where));
  out = static_cast<Held>(value);
  return {};
}

template <class T, class Held>
status read_array(GgufCursor& in, std::uint64_t count, MetaValue& out, const Where& where) {
  FOURFOLD_TRY(in.need(count * sizeof(T), where));
  const std::byte* from = in.take(count * sizeof(T));
  std::vector<Held> values(count);
  for (std::size_t i = 0; i < count; ++i) {
    T value{};
    std::memcpy(&value, from + i * sizeof(T), sizeof(T));
    values[i] = static_cast<Held>(value);
  }
  out = std::move(values);
  return {};
}

// Unsigned 64-bit arrays are held as signed integers.
status read_u64_array(GgufCursor& in, std::uint64_t count, MetaValue& out, const Where& where) {
  FOURFOLD_TRY((read_array<std::uint64_t, std::int64_t>(in, count, out, where)));
  for (const std::int64_t value : std::get<std::vector<std::int64_t>>(out))
    if (value < 0)
      return malformed_at(where, "an element is " + std::to_string(static_cast<std::uint64_t>(value)) +
                                     "; expected integers below 2^63");
  return {};
}

status read_bool_array(GgufCursor& in, std::uint64_t count, MetaValue& out, const Where& where) {
  std::vector<std::int64_t> values;
  for (std::uint64_t i = 0; i < count; ++i) {
    std::uint8_t value = 0;
    FOURFOLD_TRY(read_bool(in, value, where));
    values.push_back(value);
  }
  out = std::move(values);
  return {};
}

status read_string_array(GgufCursor& in, std::uint64_t count, MetaValue& out, const Where& where) {
  FOURFOLD_TRY(in.need(count * sizeof(std::uint64_t), where));
  std::vector<std::string_view> values(count);
  for (std::string_view& value : values) FOURFOLD_TRY(in.string(value, where));
  out = std::move(values);
  return {};
}

status unknown_type(std::uint32_t type, const Where& where) {
  return malformed_at(where, "value type " + std::to_string(type) + " is not one of 0 to 12");
}

status read_array_value(GgufCursor& in, MetaValue& out, const Where& where) {
  std::uint32_t type = 0;
  FOURFOLD_TRY(in.number(type, where));
  constexpr std::uint64_t kSmallest[] = {1, 1, 2, 2, 4, 4, 4, 1, 8, 12, 8, 8, 8};
  if (type >= std::size(kSmallest)) return unknown_type(type, where);
  std::uint64_t count = 0;
  FOURFOLD_TRY(in.count(count, kSmallest[type], where));
  switch (ValueType{type}) {
    case ValueType::u8:
      return read_array<std::uint8_t, std::int64_t>(in, count, out, where);
    case ValueType::i8:
      return read_array<std::int8_t, std::int64_t>(in, count, out, where);
    case ValueType::u16:
      return read_array<std::uint16_t, std::int64_t>(in, count, out, where);
    case ValueType::i16:
      return read_array<std::int16_t, std::int64_t>(in, count, out, where);
    case ValueType::u32:
      return read_array<std::uint32_t, std::int64_t>(in, count, out, where);
    case ValueType::i32:
      return read_array<std::int32_t, std::int64_t>(in, count, out, where);
    case ValueType::f32:
      return read_array<float, double>(in, count, out, where);
    case ValueType::boolean:
      return read_bool_array(in, count, out, where);
    case ValueType::string:
      return read_string_array(in, count, out, where);
    case ValueType::array:
      break;
    case ValueType::u64:
      return read_u64_array(in, count, out, where);
    case ValueType::i64:
      return read_array<std::int64_t, std::int64_t>(in, count, out, where);
    case ValueType::f64:
      return read_array<double, double>(in, count, out, where);
  }
  return {Code::unsupported, where.text() + ": an array of arrays; expected numbers, booleans or strings"};
}

status read_value(GgufCursor& in, MetaValue& out, const Where& where) {
  std::uint32_t type = 0;
  FOURFOLD_TRY(in.number(type, where));
  switch (ValueType{type}) {
    case ValueType::u8:
      return read_scalar<std::uint8_t, std::uint64_t>(in, out, where);
    case ValueType::i8:
      return read_scalar<std::int8_t, std::int64_t>(in, out, where);
    case ValueType::u16:
      return read_scalar<std::uint16_t, std::uint64_t>(in, out, where);
    case ValueType::i16:
      return read_scalar<std::int16_t, std::int64_t>(in, out, where);
    case ValueType::u32:
      return read_scalar<std::uint32_t, std::uint64_t>(in, out, where);
    case ValueType::i32:
      return read_scalar<std::int32_t, std::int64_t>(in, out, where);
    case ValueType::f32:
      return read_scalar<float, double>(in, out, where);
    case ValueType::boolean: {
      std::uint8_t value = 0;
      FOURFOLD_TRY(read_bool(in, value, where));
      out = value == 1;
      return {};
    }
    case ValueType::string: {
      std::string_view value;
      FOURFOLD_TRY(in.string(value, where));
      out = value;
      return {};
    }
    case ValueType::array:
      return read_array_value(in, out, where);
    case ValueType::u64:
      return read_scalar<std::uint64_t, std::uint64_t>(in, out, where);
    case ValueType::i64:
      return read_scalar<std::int64_t, std::int64_t>(in, out, where);
    case ValueType::f64:
      return read_scalar<double, double>(in, out, where);
  }
  return unknown_type(type, where);
}

// general.alignment: absent (32), or a UINT32 power of two. Values below 8 and above 65536 are refused.
status read_alignment(const Metadata& metadata, std::uint64_t& alignment) {
  alignment = 32;
  const MetaValue* value = metadata.find("general.alignment");
  if (value == nullptr) return {};
  const auto* stored = std::get_if<std::uint64_t>(value);
  if (stored == nullptr || *stored < 8 || *stored > kLargestAlignment || !std::has_single_bit(*stored)) {
    const std::string met = stored == nullptr ? std::string(type_of(*value)) : std::to_string(*stored);
    return {Code::malformed, "key 'general.alignment' is " + met + "; expected an unsigned power of two from 8 to " +
                                 std::to_string(kLargestAlignment)};
  }
  alignment = *stored;
  return {};
}

status read_preamble(GgufCursor& in, std::uint32_t& version, std::uint64_t& tensors, std::uint64_t& keys) {
  char magic[4] = {};
  FOURFOLD_TRY(in.number(magic, {"magic", {}}));
  if (std::string_view(magic, 4) != "GGUF")
    return {Code::malformed, "not a GGUF file: it begins with " + quote({magic, 4}) + " instead of 'GGUF'"};
  FOURFOLD_TRY(in.number(version, {"version", {}}));
  if ((version & 0xffffu) == 0 && version != 0)
    return {Code::unsupported, "a big-endian GGUF file; only little-endian ones are read"};
  if (version != 2 && version != 3)
    return {Code::unsupported, "GGUF version " + std::to_string(version) + "; versions 2 and 3 are read"};
  constexpr std::uint64_t kSmallestKey = 8 + 1 + 4 + 1, kSmallestTensor = 8 + 1 + 4 + 8 + 4 + 8;
  FOURFOLD_TRY(in.count(tensors, kSmallestTensor, {"tensor count", {}}));
  return in.count(keys, kSmallestKey, {"key count", {}});
}

status read_metadata(GgufCursor& in, std::uint64_t keys, Metadata& metadata) {
  for (std::uint64_t i = 0; i < keys; ++i) {
    std::string_view key;
    FOURFOLD_TRY(in.name(key, {"a key's name", {}}));
    MetaValue value;
    FOURFOLD_TRY(read_value(in, value, {"value of key", key}));
    if (!metadata.add(key, std::move(value))) return {Code::malformed, "key " + quote(key) + " stands there twice"};
  }
  return {};
}

// Shape, type and size of one tensor; tensor.offset is still relative to the data section.
status read_tensor(GgufCursor& in, std::uint64_t alignment, TensorInfo& tensor) {
  std::string_view name;
  FOURFOLD_TRY(in.name(name, {"a tensor's name", {}}));
  tensor.name = name;
  const Where where{"tensor", name};
  std::uint32_t rank = 0, number = 0;
  FOURFOLD_TRY(in.number(rank, where));
  if (rank < 1 || rank > 4)
    return malformed_at(where, "it has " + std::to_string(rank) + " dimensions; expected 1 to 4");
  tensor.shape.resize(rank);
  for (std::uint32_t i = 0; i < rank; ++i) {
    std::int64_t& dimension = tensor.shape[rank - 1 - i];
    FOURFOLD_TRY(in.number(dimension, where));
    if (dimension < 1) {
      return malformed_at(where, "dimension " + std::to_string(i) + " is " +
                                     std::to_string(static_cast<std::uint64_t>(dimension)) +
                                     "; expected 1 to 2^63 - 1");
    }
  }
  FOURFOLD_TRY(in.number(number, where));
  FOURFOLD_TRY(in.number(tensor.offset, where));
  if (tensor.offset % alignment != 0) {
    return malformed_at(where, "its offset " + grouped(tensor.offset) + " is not a multiple of the alignment " +
                                   std::to_string(alignment));
  }
  const TensorType* type = tensor_type(number);
  tensor.storage = storage_from_gguf(number);
  tensor.type_name = type != nullptr ? std::string(type->name) : "type " + std::to_string(number);
  if (type == nullptr) return {};
  return in_file(where.text(), tensor_bytes(tensor.shape, type->elements, type->bytes, tensor.bytes));
}

status read_all(GgufCursor& in, Gguf& gguf, std::uint64_t file_size) {
  std::uint64_t tensors = 0, keys = 0, alignment = 0;
  FOURFOLD_TRY(read_preamble(in, gguf.version, tensors, keys));
  FOURFOLD_TRY(read_metadata(in, keys, gguf.metadata));
  FOURFOLD_TRY(read_alignment(gguf.metadata, alignment));
  std::unordered_set<std::string> names;
  for (std::uint64_t i = 0; i < tensors; ++i) {
    TensorInfo tensor;
    FOURFOLD_TRY(read_tensor(in, alignment, tensor));
    if (!names.insert(tensor.name).second)
      return {Code::malformed, "tensor " + quote(tensor.name) + " stands there twice"};
    gguf.tensors.push_back(std::move(tensor));
  }
  const std::uint64_t data = (in.position() + alignment - 1) / alignment * alignment;
  return place_tensors(gguf.tensors, data, file_size);
}

}  // namespace

result<Gguf> parse_gguf(const GgufHead& head, std::string source, std::uint64_t* wanted) {
  Gguf gguf;
  gguf.metadata = Metadata(source, head.bytes);
  GgufCursor in(head);
  const status parsed = read_all(in, gguf, head.file_size);
  if (wanted != nullptr) *wanted = in.wanted();
  if (!parsed.ok()) return in_file(source, parsed);
  return gguf;
}

result<Gguf> read_gguf(const File& file) {
  std::uint64_t size = std::uint64_t{2} << 20;
  while (true) {
    GgufHead head;
    head.file_size = file.size();
    head.size = static_cast<std::size_t>(std::min<std::uint64_t>({size, file.size(), kLargestHeader}));
    const auto bytes = std::make_shared_for_overwrite<std::byte[]>(head.size);
    FOURFOLD_TRY(file.read_at(0, {bytes.get(), head.size}));
    head.bytes = bytes;
    std::uint64_t wanted = 0;
    auto gguf = parse_gguf(head, file.name(), &wanted);
    if (wanted == 0) return gguf;
    if (wanted > kLargestHeader) {
      return status(Code::unsupported, file.name() + ": its header needs more than " + grouped(kLargestHeader) +
                                           " bytes, the most that is read");
    }
    size = std::max(2 * size, wanted);
  }
}

}  // namespace fourfold
