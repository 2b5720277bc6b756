// Which mutex guards what, for clang's -Wthread-safety: attributes that other compilers do not see.
// The sanitizer build is clang's and refuses an access without the mutex.
//
// Source of the attributes: clang's ThreadSafetyAnalysis page. The mutexes that carry them are
// shm/mutex.h's: those of libstdc++ do not.
#pragma once

#if defined(__clang__)
#define KVD_THREAD_ANNOTATION(x) __attribute__((x))
#else
#define KVD_THREAD_ANNOTATION(x)
#endif

#define KVD_CAPABILITY(name) KVD_THREAD_ANNOTATION(capability(name))
#define KVD_SCOPED_CAPABILITY KVD_THREAD_ANNOTATION(scoped_lockable)

// A member that is read and written with that mutex held; what a pointer member points at.
#define KVD_GUARDED_BY(mutex) KVD_THREAD_ANNOTATION(guarded_by(mutex))
#define KVD_PT_GUARDED_BY(mutex) KVD_THREAD_ANNOTATION(pt_guarded_by(mutex))

// A function that is called with the mutex held; one that is called without it.
#define KVD_REQUIRES(...) KVD_THREAD_ANNOTATION(requires_capability(__VA_ARGS__))
#define KVD_EXCLUDES(...) KVD_THREAD_ANNOTATION(locks_excluded(__VA_ARGS__))
// A function that returns with the mutex held; one that gives it back.
#define KVD_ACQUIRE(...) KVD_THREAD_ANNOTATION(acquire_capability(__VA_ARGS__))
#define KVD_TRY_ACQUIRE(...) KVD_THREAD_ANNOTATION(try_acquire_capability(__VA_ARGS__))
#define KVD_RELEASE(...) KVD_THREAD_ANNOTATION(release_capability(__VA_ARGS__))
// A mutex that is taken after another one.
#define KVD_ACQUIRED_AFTER(...) KVD_THREAD_ANNOTATION(acquired_after(__VA_ARGS__))
// Tells the analysis that the mutex is held, where it cannot see it: in a lambda that is called under
// it.
#define KVD_ASSERT_CAPABILITY(mutex) KVD_THREAD_ANNOTATION(assert_capability(mutex))

// A function that the analysis leaves out. Each use says why no other thread is there.
#define KVD_NO_THREAD_SAFETY_ANALYSIS KVD_THREAD_ANNOTATION(no_thread_safety_analysis)
