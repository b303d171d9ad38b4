// SPDX-License-Identifier: Apache-2.0
// JoinOrLeave: the end of a thread whose owner may be destroyed by that thread itself, because a
// last reference can go anywhere. Such a thread cannot be joined there and must not be detached: a
// detached thread still runs our code while the process exits or unloads the library.
#pragma once

#include <cstddef>
#include <thread>

namespace halyard {

// Joins `thread`; when it is the caller's own, the process takes it over and joins it after its
// function has returned: at a later call here, or at exit, which waits two seconds at most for
// such threads and leaves alone those that take longer or come later. Does nothing without a
// thread. Thread-safe.
void JoinOrLeave(std::thread& thread);

// Joins the threads taken over whose functions have returned; how many have not. Thread-safe.
size_t JoinLeftThreads();

}  // namespace halyard
