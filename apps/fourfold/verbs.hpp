// The verbs. Each declares its options and gives back what does its work.
#pragma once

#include "options.hpp"

namespace fourfold::cli {

Action declare_run(Options&);
Action declare_chat(Options&);
Action declare_bench(Options&);
Action declare_logits(Options&);
Action declare_tokenize(Options&);
Action declare_detokenize(Options&);
Action declare_template(Options&);
Action declare_info(Options&);
Action declare_explain(Options&);
Action declare_probe(Options&);
Action declare_check(Options&);
Action declare_balance(Options&);
Action declare_doctor(Options&);
Action declare_new(Options&);

}  // namespace fourfold::cli
