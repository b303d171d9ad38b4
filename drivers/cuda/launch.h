// SPDX-License-Identifier: Apache-2.0
// Puts one work into a stream: its waits, its commands and the event behind them.
#pragma once

#include "drivers/cuda/scheduler.h"

namespace halyard::drivers::cuda {

// Scheduler::Launch of every CUDA device.
Scheduler::Launched LaunchWork(Work& work, CUstream stream);

}  // namespace halyard::drivers::cuda
