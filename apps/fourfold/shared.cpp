#include "shared.hpp"

#include "exit.hpp"
#include "figures.hpp"
#include "output.hpp"

namespace fourfold::cli {
namespace {

std::string take_device(const std::string& device) {
  if (device == "cpu") return {};
  const bool cuda = device == "cuda" || (device.starts_with("cuda:") && device.size() > 5 &&
                                         device.find_first_not_of("0123456789", 5) == std::string::npos);
  if (cuda) fail("--device " + device + ": this build has no CUDA executor; accepted: cpu");
  return "'" + one_line(device) + "' is not one of cpu, cuda, cuda:N";
}

}  // namespace

void declare_everywhere(Options& options, Everywhere& everywhere) {
  options.group("Everywhere");
  options.taken("--device DEVICE", take_device, "where to compute: cpu (this build has no cuda)");
  options.choice("--executor NAME", everywhere.executor, {"team", "reference", "reference-f32"},
                 "what computes: team (fast), reference (double), reference-f32");
  options.integer("-t,--threads N", everywhere.threads, 1, 4096, "threads; default: the physical cores at hand");
  options.flag("--json", everywhere.json, "print JSON");
  options.group("Options");
}

void declare_model(Options& options, std::string& path) {
  options.text("-m,--model MODEL", path, "a .gguf, or a folder with config.json and safetensors");
}

}  // namespace fourfold::cli
