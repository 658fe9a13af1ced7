// Rows of the method tables, by type.
#pragma once

#include "text/jinja/builtins.hpp"

namespace fourfold::jinja {

std::span<const Builtin> text_methods();

}  // namespace fourfold::jinja
