#include "signals.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <csignal>

#include "exit.hpp"

namespace fourfold::cli {
namespace {

std::atomic<bool> asked_to_stop = false;
std::atomic<int> interruptible = 0;
std::atomic<const char*> unfinished = nullptr;
static_assert(std::atomic<bool>::is_always_lock_free && std::atomic<const char*>::is_always_lock_free);

void on_signal(int signal) {
  if (signal == SIGINT && interruptible.load() > 0 && !asked_to_stop.exchange(true)) return;
  if (const char* path = unfinished.load()) unlink(path);
  _exit(signal == SIGINT ? kInterrupted : 128 + signal);
}

}  // namespace

void install_signals() {
  struct sigaction ignore {};
  ignore.sa_handler = SIG_IGN;
  sigaction(SIGPIPE, &ignore, nullptr);
  sigaction(SIGXFSZ, &ignore, nullptr);  // a write past the file size limit fails and is told
  struct sigaction stop {};
  stop.sa_handler = on_signal;
  sigaction(SIGINT, &stop, nullptr);
  sigaction(SIGTERM, &stop, nullptr);
  struct sigaction inherited {};
  if (sigaction(SIGHUP, nullptr, &inherited) == 0 && inherited.sa_handler != SIG_IGN)  // nohup keeps its meaning
    sigaction(SIGHUP, &stop, nullptr);
}

void occupy_standard_streams() {
  for (int stream = 0; stream <= 2; ++stream)
    if (fcntl(stream, F_GETFD) == -1 && open("/dev/null", O_RDWR) != stream) _exit(kFailed);
}

Interruptible::Interruptible() {
  asked_to_stop = false;
  ++interruptible;
}
Interruptible::~Interruptible() { --interruptible; }

const std::atomic<bool>& interrupted() { return asked_to_stop; }

void remove_if_killed(const char* path) { unfinished = path; }

}  // namespace fourfold::cli
