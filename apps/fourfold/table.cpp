#include "table.hpp"

#include <algorithm>

#include "figures.hpp"

namespace fourfold::cli {

std::vector<std::size_t> Table::widths() const {
  std::vector<std::size_t> widths(alignment_.size());
  for (const auto& row : rows_)
    for (std::size_t c = 0; c < row.size(); ++c) widths[c] = std::max(widths[c], columns(row[c]));
  return widths;
}

std::string Table::padded(const std::string& cell, std::size_t column, std::size_t width) const {
  const std::string blanks(width - columns(cell), ' ');
  return alignment_[column] == 'r' ? blanks + cell : cell + blanks;
}

std::string Table::text() const {
  const auto width = widths();
  std::string out;
  for (const auto& row : rows_) {
    std::string line;
    for (std::size_t c = 0; c < row.size(); ++c) line += (c == 0 ? "" : "  ") + padded(row[c], c, width[c]);
    line.erase(line.find_last_not_of(' ') + 1);
    out += line + "\n";
  }
  return out;
}

std::string Table::markdown() const {
  const auto width = widths();
  std::string out;
  for (std::size_t r = 0; r < rows_.size(); ++r) {
    for (std::size_t c = 0; c < rows_[r].size(); ++c) out += "| " + padded(rows_[r][c], c, width[c]) + " ";
    out += "|\n";
    if (r > 0) continue;
    for (std::size_t c = 0; c < alignment_.size(); ++c)
      out += "| " + std::string(width[c] - (alignment_[c] == 'r'), '-') + (alignment_[c] == 'r' ? ": " : " ");
    out += "|\n";
  }
  return out;
}

}  // namespace fourfold::cli
