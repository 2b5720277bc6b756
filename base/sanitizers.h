// The sanitizers with which this build was compiled. GCC names them by macros, clang by features.
#pragma once

#if defined(__has_feature)
#define KVD_HAS_FEATURE(feature) __has_feature(feature)
#else
#define KVD_HAS_FEATURE(feature) 0
#endif

#if defined(__SANITIZE_ADDRESS__) || KVD_HAS_FEATURE(address_sanitizer)
#define KVD_ADDRESS_SANITIZER 1
#else
#define KVD_ADDRESS_SANITIZER 0
#endif

#if defined(__SANITIZE_THREAD__) || KVD_HAS_FEATURE(thread_sanitizer)
#define KVD_THREAD_SANITIZER 1
#else
#define KVD_THREAD_SANITIZER 0
#endif

namespace kvd {

inline constexpr bool kIsSanitized = KVD_ADDRESS_SANITIZER != 0 || KVD_THREAD_SANITIZER != 0;

}  // namespace kvd
