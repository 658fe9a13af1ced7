// The steps that a tokenizer.json lists (normalizers, pre-tokenizers, decoders, post-processors) as ours.
//
// unsupported: a type, or a setting of one, that is not implemented; the message names it and those that are.
// malformed: a member of the wrong type. A null step does nothing.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "text/tokenizer_parts.hpp"

namespace fourfold {

status add_normalizer(const nlohmann::json& step, Normalizer& out);

// `byte_level`: set if the last step is ByteLevel, which makes bytes the symbols that merges begin with.
status add_pre_tokenizer(const nlohmann::json& step, PreTokenizer& out, bool& byte_level);

status add_decoder(const nlohmann::json& step, bool byte_level, TokenizerParts& out);

// Fills what goes around a text.
status add_post_processor(const nlohmann::json& step, TokenizerParts& out);

// The member of an object; null if there is none.
const nlohmann::json& json_member(const nlohmann::json& object, const char* name);

// Leave `out` as it is if the member is missing or null.
status read_flag(const nlohmann::json& object, const char* name, bool& out);
status read_text(const nlohmann::json& object, const char* name, std::string& out);

}  // namespace fourfold
