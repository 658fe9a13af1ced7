// The verbs. Each declares its options and gives back what does its work.
#pragma once

#include "options.hpp"

namespace fourfold::cli {

Action declare_tokenize(Options&);
Action declare_detokenize(Options&);
Action declare_info(Options&);

}  // namespace fourfold::cli
