// info: what is in a model file, whatever its architecture: only metadata and the table of tensors are read.
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <variant>

#include "exit.hpp"
#include "figures.hpp"
#include "formats/checkpoint.hpp"
#include "input.hpp"
#include "json_out.hpp"
#include "models/family.hpp"
#include "output.hpp"
#include "shared.hpp"
#include "table.hpp"
#include "verbs.hpp"

namespace fourfold::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kShownItems = 6, kShownText = 60;

struct Info {
  std::string model;
  Everywhere everywhere;
  bool tensors = false, metadata = false;
  int run() const;
};

double elements(const TensorInfo& tensor) {
  double n = 1;
  for (const auto extent : tensor.shape) n *= static_cast<double>(extent);
  return n;
}

struct StorageSum {
  int tensors = 0;
  double elements = 0, bytes = 0;
};

std::map<std::string, StorageSum> by_storage(const Checkpoint& file) {
  std::map<std::string, StorageSum> sums;
  for (const auto& tensor : file.tensors()) {
    StorageSum& sum = sums[tensor.type_name];
    ++sum.tensors;
    sum.elements += elements(tensor);
    sum.bytes += static_cast<double>(tensor.bytes);
  }
  return sums;
}

std::string shape_text(const TensorInfo& tensor) {
  std::vector<std::string> extents;
  for (const auto extent : tensor.shape) extents.push_back(std::to_string(extent));
  return tensor.shape.empty() ? "scalar" : joined(extents, " x ");
}

// A value on one line: long text and long arrays are cut, and say how much there is.
std::string abbreviated(std::string text) {
  text = one_line(text);
  if (text.size() <= kShownText) return text;
  std::size_t end = kShownText;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xc0) == 0x80) --end;
  return text.substr(0, end) + "... (" + grouped_by_three(static_cast<std::int64_t>(text.size())) + " bytes)";
}

Json as_json(const MetaValue& value) {
  return std::visit(
      [](const auto& v) -> Json {
        if constexpr (std::is_same_v<std::decay_t<decltype(v)>, std::vector<std::string_view>>) {
          Json list = Json::array();
          for (const auto text : v) list.push_back(std::string(text));
          return list;
        } else if constexpr (std::is_same_v<std::decay_t<decltype(v)>, std::string_view>) {
          return std::string(v);
        } else {
          return v;
        }
      },
      value);
}

std::string as_text(const MetaValue& value) {
  const Json json = as_json(value);
  if (json.is_string()) return abbreviated(json.get<std::string>());
  if (!json.is_array()) return json.dump();
  std::vector<std::string> items;
  for (std::size_t i = 0; i < json.size() && i < kShownItems; ++i)
    items.push_back(abbreviated(json[i].dump(-1, ' ', false, Json::error_handler_t::replace)));
  if (json.size() > kShownItems)
    items.push_back("... (" + grouped_by_three(static_cast<std::int64_t>(json.size())) + ")");
  return std::string("[").append(joined(items, ", ")).append("]");
}

// Pairs of a name and a figure that describe the model itself.
Json hyper_parameters(const Hyper& h) {
  int windowed = 0, window = 0;
  for (const int w : h.windows) {
    windowed += w > 0;
    window = std::max(window, w);
  }
  Json json{{"layers", h.layers},     {"width", h.width},       {"heads", h.heads},
            {"kv_heads", h.kv_heads}, {"head_dim", h.head_dim}, {"feed_forward", h.ff},
            {"vocab", h.vocab},       {"context", h.context},   {"rope_base", h.rope.base}};
  if (windowed > 0) {
    json["window"] = window;
    json["layers_with_window"] = windowed;
  }
  return json;
}

Json tokenizer_summary(const Checkpoint& file) {
  const Metadata& meta = file.metadata();
  Json json = Json::object();
  if (file.format() == Checkpoint::Format::gguf) {
    for (const char* key : {"model", "pre"})
      if (const auto text = meta.get_string(std::string("tokenizer.ggml.") + key); text.ok())
        json[key] = std::string(*text);
    if (const auto tokens = meta.get_strings("tokenizer.ggml.tokens"); tokens.ok()) json["tokens"] = tokens->size();
    json["chat_template"] = meta.has("tokenizer.chat_template");
  } else {
    if (file.side_file("tokenizer.json").ok()) json["model"] = "tokenizer.json";
    const auto config = file.side_file("tokenizer_config.json");
    json["chat_template"] = file.side_file("chat_template.jinja").ok() ||
                            (config.ok() && config->find("\"chat_template\"") != std::string::npos);
  }
  return json;
}

std::string plain(const Json& value) {
  if (value.is_boolean()) return value.get<bool>() ? "yes" : "no";
  if (value.is_number_integer()) return grouped_by_three(value.get<std::int64_t>());
  if (value.is_number()) {
    const double number = value.get<double>();
    constexpr double kWhole = 1e15;  // below it a double holds every whole number
    return number == std::floor(number) && std::abs(number) < kWhole ? grouped_by_three(std::llround(number))
                                                                     : significant(number, 6);
  }
  return abbreviated(value.get<std::string>());
}

std::string spaced(std::string name) {
  for (char& c : name)
    if (c == '_') c = ' ';
  return name;
}

std::string listing(const Json& json) {
  Table table{"ll"};
  for (const auto& [name, value] : json.items()) {
    if (!value.is_object()) {
      table.row({spaced(name), plain(value)});
      continue;
    }
    for (const auto& [part, inner] : value.items())
      table.row({name == "hyper_parameters" ? spaced(part) : name + " " + spaced(part), plain(inner)});
  }
  return table.text();
}

Json summary(const Checkpoint& file, const result<ModelSpec>& spec) {
  double parameters = 0;
  for (const auto& tensor : file.tensors()) parameters += elements(tensor);
  Json json{{"file", file.path()},
            {"format", file.format() == Checkpoint::Format::gguf ? "GGUF" : "safetensors"},
            {"file_bytes", file.file_bytes()},
            {"architecture", file.architecture().empty() ? "not named" : file.architecture()},
            {"runs", spec.ok()}};
  if (!spec.ok()) json["because"] = spec.error().message();
  json["parameters"] = parameters;
  json["tensors"] = file.tensors().size();
  if (spec.ok()) json["hyper_parameters"] = hyper_parameters(spec->hyper);
  json["tokenizer"] = tokenizer_summary(file);
  return json;
}

std::string storages(const Checkpoint& file) {
  Table table{"lrrrr"};
  table.row({"storage", "tensors", "numbers", "bytes", "bits each"});
  for (const auto& [name, sum] : by_storage(file))
    table.row({name, std::to_string(sum.tensors), in_thousands(sum.elements), in_bytes(sum.bytes),
               sum.elements > 0 ? significant(8 * sum.bytes / sum.elements, 3) : "-"});
  return table.text();
}

std::string tensor_list(const Checkpoint& file) {
  Table table{"lrlr"};
  table.row({"tensor", "shape", "storage", "bytes"});
  for (const auto& tensor : file.tensors())
    table.row(
        {one_line(tensor.name), shape_text(tensor), tensor.type_name, in_bytes(static_cast<double>(tensor.bytes))});
  return table.text();
}

std::string metadata_list(const Checkpoint& file) {
  Table table{"ll"};
  for (const auto& entry : file.metadata().entries()) table.row({one_line(entry.key), as_text(entry.value)});
  return table.text();
}

Json whole(const Checkpoint& file, Json json) {
  Json sums = Json::object();
  for (const auto& [name, sum] : by_storage(file))
    sums[name] = {{"tensors", sum.tensors}, {"numbers", sum.elements}, {"bytes", sum.bytes}};
  json["storages"] = std::move(sums);
  return json;
}

int Info::run() const {
  const Checkpoint file = must(open_checkpoint(required_model(model, "info")));
  Json json = summary(file, read_model(file));
  if (everywhere.json) {
    json = whole(file, std::move(json));
    if (tensors)
      for (const auto& t : file.tensors())
        json["tensor_list"].push_back(
            {{"name", t.name}, {"shape", t.shape}, {"storage", t.type_name}, {"bytes", t.bytes}});
    if (metadata)
      for (const auto& entry : file.metadata().entries()) json["metadata"][entry.key] = as_json(entry.value);
    out().write(dumped(json));
    return kGood;
  }
  json["file_bytes"] = in_bytes(json["file_bytes"].get<double>());
  json["parameters"] = in_thousands(json["parameters"].get<double>());
  out().write(listing(json));
  if (!file.tensors().empty()) out().write("\n" + storages(file));
  if (tensors) out().write("\n" + tensor_list(file));
  if (metadata) out().write("\n" + metadata_list(file));
  return kGood;
}

}  // namespace

Action declare_info(Options& options) {
  auto info = std::make_shared<Info>();
  declare_model(options, info->model);
  options.flag("--tensors", info->tensors, "list every tensor");
  options.flag("--metadata", info->metadata, "list every key of the metadata");
  declare_everywhere(options, info->everywhere);
  options.examples(
      "  fourfold info -m model.gguf\n"
      "  fourfold info -m model.gguf --metadata --tensors\n"
      "  fourfold info -m folder --json");
  return [info] { return info->run(); };
}

}  // namespace fourfold::cli
