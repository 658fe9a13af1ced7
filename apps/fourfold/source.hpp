// A Program from -m MODEL or from --shape NAME --dtype F.
#pragma once

#include <fourfold/program.hpp>
#include <fourfold/session.hpp>
#include <string>

#include "options.hpp"

namespace fourfold::cli {

struct Source {
  std::string model, shape, dtype = "bf16";
};
void declare_source(Options& options, Source& source);
void declare_sources(Options& options, Source& source);  // lists of shapes and storages: see each_source
std::vector<Source> each_source(const Source& lists, const std::string& verb);

Program read_program(const Source& source, const std::string& verb);  // no weight is read
Model open_model(const Source& source, const std::string& verb);      // random weights for a shape
double parameters(const Program& program);
// "llama 135 M q4_1": family, size, and the storage that most numbers have.
std::string described(const Program& program);
std::string without_layer(const std::string& name);  // "blk.3.qkv" -> "qkv"

}  // namespace fourfold::cli
