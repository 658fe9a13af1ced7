// Attribute paths and sort keys, shared by the filters that take them.
#pragma once

#include "text/jinja/evaluator.hpp"

namespace fourfold::jinja {

// "a.b.0": items of items; a part of digits is an index.
using Path = std::vector<Value>;
Path attribute_path(Evaluator& evaluator, const Value& attribute);
Value follow(Evaluator& evaluator, const Path& path, Value item, const Value* fallback = nullptr);

// Text in lower case; other values as they are.
Value folded(Evaluator& evaluator, const Value& value);

struct Keyed {
  Values key;
  Value item;
};

// The items in the order of their keys, those with equal keys as they were.
Values sorted(Evaluator& evaluator, std::vector<Keyed> rows, bool descending);

}  // namespace fourfold::jinja
