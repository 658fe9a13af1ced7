// A plan as a picture: what each CTA does when, in one token. Times are measured, or what a model of the machine
// expects.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "cuda/persistent/launch.hpp"

namespace fourfold::cuda::persistent {

// In microseconds from the token's start: taken up, first input there, finished and announced.
struct TaskTime {
  double taken = 0, begun = 0, done = 0;
};
using Timeline = std::vector<std::vector<TaskTime>>;  // [CTA][task]

// A plan with the times that a launch of it took.
struct Traced {
  Plan plan;
  Timeline timeline;
};
// Of one token's stamps, nanoseconds [CTA][stride][kStamps]. A task that left none took no time.
Timeline measured(const Plan& plan, std::span<const unsigned long long> stamps, int stride);

// How fast the machine is taken to be.
struct Pace {
  double bytes_per_us = 4.62e6;  // read by the whole grid together
  double hop_us = 2.5;           // from a task's end to its announcement being seen elsewhere
};

// Every task begins when its CTA is free and its last input has been announced, and lasts as long as its share of the
// stream. tile_bytes: of one weight tile; context: keys in the caches, in bf16. `plan` has passed validate().
Timeline expect(const Plan& plan, int tile_bytes, int context, const Pace& pace);

// One file, no other needed: a lane for each CTA, colours by kind of step, waits pale; scroll to zoom, drag to move.
std::string timeline_html(const Plan& plan, const Timeline& timeline, const std::string& title);
// Trace events, for ui.perfetto.dev.
std::string timeline_json(const Plan& plan, const Timeline& timeline);

}  // namespace fourfold::cuda::persistent
