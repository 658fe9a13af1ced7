// FOURFOLD_API marks what the shared library exports; everything else is built with hidden visibility. FOURFOLD_LOCAL
// marks the private parts of an exported class.
#pragma once

#if defined(_WIN32)
#define FOURFOLD_API
#define FOURFOLD_LOCAL
#else
#define FOURFOLD_API __attribute__((visibility("default")))
#define FOURFOLD_LOCAL __attribute__((visibility("hidden")))
#endif
