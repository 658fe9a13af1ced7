// What several methods and filters do with text.
#pragma once

#include "text/jinja/value.hpp"

namespace fourfold::jinja {

enum class Justify { left, right, center };

// Padded to a width in code points.
std::string justified(const std::string& text, std::int64_t width, std::string_view fill, Justify side);

// Python's str.replace; a negative count means all.
std::string replaced(std::string_view text, std::string_view from, std::string_view to, std::int64_t count);

// Python's str.split and rsplit without a separator, at most `most` cuts unless negative.
std::vector<std::string> split_on_space(std::string_view text, std::int64_t most, bool from_right);

}  // namespace fourfold::jinja
