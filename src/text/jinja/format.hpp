// Python's two ways to format: "%d" % values and "{}".format(values).
#pragma once

#include "text/jinja/value.hpp"

namespace fourfold::jinja {

// Conversions d i u o x X e E f F g G c r s a %, with flags, width and precision; values: one, a tuple, or a dict.
std::string format_percent(Budget& budget, std::string_view format, const Value& values);

// Fields {} {0} {name}, with !r or !s and a format specification; no attributes or items of a value.
std::string format_braces(Budget& budget, std::string_view format, const Args& args);

}  // namespace fourfold::jinja
