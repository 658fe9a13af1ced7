// Ctrl-C: where a verb can end early with something to show, the first one asks it to and the second ends the program;
// elsewhere the first one ends the program. A closed pipe is an error of write(), not a signal.
#pragma once

#include <atomic>

namespace fourfold::cli {

void install_signals();

// Opens /dev/null where stdin, stdout or stderr was closed, so that no other file takes its place.
void occupy_standard_streams();

// While one of these lives, the first Ctrl-C only sets interrupted().
class Interruptible {
 public:
  Interruptible();
  ~Interruptible();
  Interruptible(const Interruptible&) = delete;
  Interruptible& operator=(const Interruptible&) = delete;
};
const std::atomic<bool>& interrupted();

// A file to unlink when a signal ends the program; null: none. The text has to stay where it is.
void remove_if_killed(const char* path);

}  // namespace fourfold::cli
