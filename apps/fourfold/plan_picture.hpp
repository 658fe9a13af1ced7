// The persistent kernel's plan of a model, as a picture.
#pragma once

#include <fourfold/session.hpp>
#include <string>

namespace fourfold::cli {

// Draws one token behind `context` positions on a GPU of 132 multiprocessors that reads 4.62 TB/s: what each CTA waits
// for and works on. Trace events when `path` ends in ".json", else a page of HTML. Ends the program when the kernel
// does not run the Program, or the file cannot be written.
void draw_plan(const Program& program, int context, const std::string& path);
// The same, measured on a device, its caches filled with random values.
void draw_trace(const Model& model, int device, int context, const std::string& path);

}  // namespace fourfold::cli
