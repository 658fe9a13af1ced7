// Tokenizer: text to token ids and back.
//
// Byte-level and SentencePiece BPE, from GGUF metadata or a Hugging Face tokenizer.json. A Tokenizer is immutable and
// cheap to copy; any number of threads may use one. Encoding n bytes takes n log n steps and no stack that grows with
// n.
#pragma once

#include <fourfold/status.hpp>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace fourfold {

class Metadata;
struct TokenizerParts;

struct EncodeOptions {
  std::optional<bool> add_bos = std::nullopt;  // true: BOS in front; false: bare ids; none: as the model's file says
  bool parse_special = false;                  // control tokens match in the text; user-defined ones always do
};

class Tokenizer {
 public:
  // From `tokenizer.ggml.*`. not_found, malformed or unsupported: the message names the key and what would be accepted.
  static result<Tokenizer> from_gguf(const Metadata& metadata);

  // From a Hugging Face tokenizer.json of a BPE model, and its tokenizer_config.json, which may be empty. malformed or
  // unsupported: the message names the member, or the step that is not implemented and those that are.
  static result<Tokenizer> from_json(std::string_view tokenizer_json, std::string_view tokenizer_config_json);

  explicit Tokenizer(std::shared_ptr<const TokenizerParts> parts) : parts_(std::move(parts)) {}

  // Any bytes are text. invalid_argument: 2^30 bytes or more; resource: a pattern reached its limit.
  result<std::vector<int>> encode(std::string_view text, const EncodeOptions& options = {}) const;

  // The bytes that a token stands for: they may be a part of a character, and none for a control token unless
  // `render_special`, nor for an id outside the vocabulary.
  std::string piece(int id, bool render_special = false) const;

  // The pieces joined, without the space that encoding puts before a text.
  std::string decode(std::span<const int> ids, bool render_special = false) const;

  int vocab_size() const;
  std::optional<int> bos() const;
  std::optional<int> eos() const;
  std::optional<int> unknown() const;
  std::optional<int> padding() const;
  bool adds_bos() const;      // by default
  bool is_end(int id) const;  // of a text, a turn or a message
  bool is_control(int id) const;
  std::optional<int> find(std::string_view text) const;  // the token of exactly this text

 private:
  std::shared_ptr<const TokenizerParts> parts_;
};

}  // namespace fourfold
