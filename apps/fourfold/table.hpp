// Table: rows of cells in aligned columns, two spaces apart; no line ends in blanks.
#pragma once

#include <string>
#include <vector>

namespace fourfold::cli {

class Table {
 public:
  // One letter per column: l left, r right.
  explicit Table(std::string alignment) : alignment_(std::move(alignment)) {}
  void row(std::vector<std::string> cells) { rows_.push_back(std::move(cells)); }
  bool empty() const { return rows_.empty(); }
  std::string text() const;
  std::string markdown() const;  // the first row is the header

 private:
  std::vector<std::size_t> widths() const;
  std::string padded(const std::string& cell, std::size_t column, std::size_t width) const;

  std::string alignment_;
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace fourfold::cli
