// Numbers and words as people read them: "96.6 MB", "1 350", "3.37 ms".
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace fourfold::cli {

std::string fixed(double value, int decimals);
std::string significant(double value, int digits);  // 0.0123, 12.3, 1230: never an exponent
std::string grouped_by_three(std::int64_t n);       // 1048576 -> "1 048 576"
std::string rate(double per_second);                // "1 350", "351", "9.6"
std::string in_bytes(double n);                     // "512 B", "96.6 MB", "15.55 GB": powers of 1000
std::string in_thousands(double n);                 // "50 M", "17 G"
std::string milliseconds(double seconds);           // "41 ms", "3.37 ms", "12.4 s"
std::string percent(double fraction);               // "97%", "0.5%"

std::string joined(const std::vector<std::string>& words, const std::string& separator);
// Control characters as \xNN, so that text from outside stays on one line.
std::string one_line(const std::string& text);
// Columns a terminal needs for UTF-8 text without wide or combining characters.
std::size_t columns(const std::string& text);

}  // namespace fourfold::cli
