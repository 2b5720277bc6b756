// Attributes for clang's -Wthread-safety analysis: which mutex guards which data. Compilers other
// than clang ignore the attributes of this file. The sanitizer builds use clang and fail to compile
// if guarded data is accessed without its mutex.
//
// Source of the attributes: clang's ThreadSafetyAnalysis page. The mutexes of base/mutex.h have
// these attributes; the mutexes of libstdc++ do not.
#pragma once

#if defined(__clang__)
#define KVD_THREAD_ANNOTATION(x) __attribute__((x))
#else
#define KVD_THREAD_ANNOTATION(x)
#endif

#define KVD_CAPABILITY(name) KVD_THREAD_ANNOTATION(capability(name))
#define KVD_SCOPED_CAPABILITY KVD_THREAD_ANNOTATION(scoped_lockable)

// KVD_GUARDED_BY: the member is accessed only with the mutex held. KVD_PT_GUARDED_BY: the object
// that the pointer member points to is accessed only with the mutex held.
#define KVD_GUARDED_BY(mutex) KVD_THREAD_ANNOTATION(guarded_by(mutex))
#define KVD_PT_GUARDED_BY(mutex) KVD_THREAD_ANNOTATION(pt_guarded_by(mutex))

// KVD_REQUIRES: the function is called with the mutex held. KVD_EXCLUDES: the function is called
// without the mutex held.
#define KVD_REQUIRES(...) KVD_THREAD_ANNOTATION(requires_capability(__VA_ARGS__))
#define KVD_EXCLUDES(...) KVD_THREAD_ANNOTATION(locks_excluded(__VA_ARGS__))
// KVD_ACQUIRE, KVD_TRY_ACQUIRE: the function returns with the mutex held. KVD_RELEASE: the function
// releases the mutex.
#define KVD_ACQUIRE(...) KVD_THREAD_ANNOTATION(acquire_capability(__VA_ARGS__))
#define KVD_TRY_ACQUIRE(...) KVD_THREAD_ANNOTATION(try_acquire_capability(__VA_ARGS__))
#define KVD_RELEASE(...) KVD_THREAD_ANNOTATION(release_capability(__VA_ARGS__))
// KVD_ACQUIRED_AFTER: the mutex is locked only after the given mutexes.
#define KVD_ACQUIRED_AFTER(...) KVD_THREAD_ANNOTATION(acquired_after(__VA_ARGS__))
// Tells clang's analysis that the mutex is held, for code in which the analysis cannot know this: a
// lambda that is called with the mutex held.
#define KVD_ASSERT_CAPABILITY(mutex) KVD_THREAD_ANNOTATION(assert_capability(mutex))

// KVD_NO_THREAD_SAFETY_ANALYSIS: clang's analysis skips the function. A comment at each use of
// KVD_NO_THREAD_SAFETY_ANALYSIS states why no other thread can interfere.
#define KVD_NO_THREAD_SAFETY_ANALYSIS KVD_THREAD_ANNOTATION(no_thread_safety_analysis)
