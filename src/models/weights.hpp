// Weights: a family's view of a file's tensors. It asks by GGUF name and expected shape; the answer is a TensorSpec of
// the Program. Missing tensors, wrong shapes and tensors nobody asked for are collected and refused by name.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "fourfold/program.hpp"
#include "fourfold/status.hpp"

namespace fourfold {

// Where tensor descriptions come from: a checkpoint, or a named shape (every tensor exists, in one storage).
class TensorSource {
 public:
  virtual ~TensorSource() = default;
  struct Found {
    std::string file_name;
    std::optional<Storage> storage;  // unset: a type this build cannot compute with
    std::string type_name;
    std::vector<std::int64_t> shape;  // outermost first
  };
  // The file's name of a tensor, from its GGUF name.
  virtual std::string file_name(const std::string& name) const = 0;
  // `shape` is what the family expects: a named shape answers with it, and has no optional tensor.
  virtual std::optional<Found> find(const std::string& name, const std::vector<std::int64_t>& shape,
                                    bool optional) const = 0;
  // A tensor by its file's own name.
  virtual std::optional<Found> find_file(const std::string& file_name) const = 0;
  virtual std::vector<std::string> all() const = 0;                                   // file names of every tensor
  virtual result<std::vector<float>> floats(const std::string& file_name) const = 0;  // a small tensor, decoded
};

class Weights {
 public:
  explicit Weights(const TensorSource& source) : source_(source) {}

  // Prefix of what follows: layer(3) makes "attn_q" stand for "blk.3.attn_q". layer(-1): none.
  void layer(int index) { prefix_ = index < 0 ? "" : "blk." + std::to_string(index) + "."; }

  Weight matrix(const std::string& name, std::int64_t rows, std::int64_t cols);
  // Of each head's `stride` rows in a tensor [heads * stride, cols] the `count` from `first` on, as a stack of `heads`
  // matrices [count, cols]; turned: [cols, count].
  struct HeadRows {
    std::int64_t heads, stride, first, count;
  };
  Weight heads(const std::string& name, const HeadRows& at, std::int64_t cols, bool turned = false);
  // A stack that is a whole tensor, each of its matrices transposed.
  Weight turned(Weight stack);
  // The same rows as one matrix [heads * count, cols].
  Weight head_rows(const std::string& name, const HeadRows& at, std::int64_t cols);
  // NAME.weight and NAME.bias: with one, without, or (unset) as the file has it.
  Dot dot(const std::string& name, std::int64_t rows, std::int64_t cols, std::optional<bool> bias = {});
  // The rows of several tensors NAME.weight, one behind the other, as one weight; not valid when the file stores them
  // in different types. Files may cut the rows otherwise than `pieces` does.
  struct Piece {
    const char* name;
    std::int64_t rows;
  };
  Weight joined(const std::vector<Piece>& pieces, std::int64_t cols);
  // NAME as it is called in the file ("ssm_a", "conv.weight"), rows x cols; a vector has 1 row.
  Weight tensor(const std::string& name, std::int64_t rows, std::int64_t cols, bool optional = false);
  // Of `experts` experts: NAME.weight [experts, rows, cols], or a tensor for each where the file's name of it has a '*'
  // in the place of the expert's number; the same for NAME.bias [experts, rows].
  Weight experts(const std::string& name, std::int64_t experts, std::int64_t rows, std::int64_t cols);
  Weight experts_bias(const std::string& name, std::int64_t experts, std::int64_t rows);
  // Rows first, first + stride, ... of each expert's matrix in a tensor [experts, file_rows, cols] called exactly
  // TENSOR, which several weights share, or [experts, file_rows] of biases (cols 1); or [experts, cols, file_rows] when
  // `transposed`, or in MXFP4 as TENSOR_blocks and TENSOR_scales, whose rows are never transposed.
  struct Fused {
    std::string tensor;
    std::int64_t file_rows = 0, first = 0, stride = 1;
    bool transposed = false;
  };
  Weight fused(const Fused& from, std::int64_t experts, std::int64_t rows, std::int64_t cols);
  // Whether the file has a tensor called exactly NAME, or NAME_blocks.
  bool has(const std::string& name) const;
  NormSpec norm(const std::string& name, std::int64_t width, float eps, float add = 0);
  // output.weight, or the embedding table when tied (unset: when the file has no output.weight).
  Weight output_or_tied(std::optional<bool> tied, Weight table);
  // A small tensor the family needs at build time; empty when absent.
  std::vector<float> values(const std::string& name, std::int64_t count);

  // Tensors known to be of no use to text generation: exact file names, or a prefix ending or a suffix starting in '*'.
  void ignore(std::string pattern) { ignored_.push_back(std::move(pattern)); }

  std::vector<TensorSpec>& specs() { return specs_; }
  status finish() const;

 private:
  Weight place(const std::string& key, TensorSpec spec);
  std::optional<TensorSource::Found> look(const std::string& file_name, const std::vector<std::int64_t>& shape);
  Weight take(const std::string& name, const std::vector<std::int64_t>& shape, bool optional, float add = 0);

  const TensorSource& source_;
  std::string prefix_;
  std::vector<TensorSpec> specs_;
  std::map<std::string, Weight> by_name_;
  std::set<std::string> used_;
  std::vector<std::string> ignored_, errors_;
};

}  // namespace fourfold
