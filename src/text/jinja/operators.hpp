// Operators on values, as Python computes them; an integer result beyond 64 bits is a Failure.
#pragma once

#include "text/jinja/ast.hpp"

namespace fourfold::jinja {

// + - * / // % **; also text + text, list + list, text or list * integer, text % values.
Value arithmetic(Budget& budget, Op op, const Value& left, const Value& right);

// Unary - and +.
Value signed_value(Op op, const Value& value);

// == != < <= > >= in, not in.
bool compare(Budget& budget, Op op, const Value& left, const Value& right);
bool contains(Budget& budget, const Value& container, const Value& item);

// value[start:stop:step]; absent bounds are undefined or None.
Value slice(Budget& budget, const Value& value, const Value& start, const Value& stop, const Value& step);

// The items that a for loop visits. An iterator gives its items once; undefined has none.
std::shared_ptr<const List> iterate(Budget& budget, const Value& value);

// Throws the reason if the value is undefined.
void require_defined(const Value& value);

}  // namespace fourfold::jinja
