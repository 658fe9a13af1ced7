// Marks what the shared library exports. Everything else is built with hidden visibility.
#pragma once

#if defined(_WIN32)
#define FOURFOLD_API
#else
#define FOURFOLD_API __attribute__((visibility("default")))
#endif
