#include "text/jinja/jinja.hpp"

#include <nlohmann/json.hpp>

#include "text/jinja/evaluator.hpp"
#include "text/utf8.hpp"

namespace fourfold::jinja {
namespace {

// Ill-formed UTF-8 becomes U+FFFD: the engine counts characters.
Value text_of(const std::string& bytes) {
  if (valid_prefix(bytes) == bytes.size()) return make_text(nullptr, bytes);
  Utf8Stream stream;
  std::string valid = stream.push(bytes);
  return make_text(nullptr, valid + stream.flush());
}

Value convert(const nlohmann::ordered_json& json, int depth = 0) {
  if (depth > kMaxNesting)
    throw Failure{concat("the context is nested more than ", kMaxNesting, " deep"), Code::resource};
  using Type = nlohmann::ordered_json::value_t;
  switch (json.type()) {
    case Type::null:
      return None{};
    case Type::boolean:
      return json.get<bool>();
    case Type::number_integer:
      return json.get<std::int64_t>();
    case Type::number_unsigned: {
      const auto value = json.get<std::uint64_t>();
      if (value > INT64_MAX) throw Failure{concat("the context's integer ", value, " does not fit 64 bits")};
      return static_cast<std::int64_t>(value);
    }
    case Type::number_float:
      return json.get<double>();
    case Type::string:
      return make_text(nullptr, json.get_ref<const std::string&>());
    case Type::array: {
      Values items;
      for (const auto& item : json) items.push_back(convert(item, depth + 1));
      return make_list(nullptr, std::move(items));
    }
    case Type::object: {
      Dict::Entries entries;
      for (const auto& [key, value] : json.items()) entries.emplace_back(text_of(key), convert(value, depth + 1));
      return make_dict(nullptr, std::move(entries));
    }
    default:
      throw Failure{"the context holds a value that is not JSON"};
  }
}

status as_status(const Failure& failure) {
  const std::string where = failure.line > 0 ? concat("template line ", failure.line, ": ") : "template: ";
  return {failure.code, where + failure.message};
}

}  // namespace

struct Template::Tree {
  Body body;
};

result<Template> parse(std::string_view source) {
  try {
    return Template(std::make_shared<const Template::Tree>(Template::Tree{parse_template(source)}));
  } catch (const Failure& failure) {
    return as_status(failure);
  }
}

result<std::string> Template::render(const nlohmann::ordered_json& context) const {
  if (!context.is_object()) return status(Code::invalid_argument, "template: the context is a JSON object");
  try {
    const Value variables = convert(context);
    return Evaluator(*variables.dict()).render(tree_->body);
  } catch (const Failure& failure) {
    return as_status(failure);
  }
}

}  // namespace fourfold::jinja
