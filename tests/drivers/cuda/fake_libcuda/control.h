// SPDX-License-Identifier: Apache-2.0
// The knobs of the stand-in for libcuda. Tests find these functions in the library by name; the
// environment sets the same: FAKE_CUDA_DEVICES, FAKE_CUDA_CAPABILITY, FAKE_CUDA_VERSION,
// FAKE_CUDA_DELAY_US and FAKE_CUDA_FAIL=FUNCTION:N:ERROR. FAKE_CUDA_TAKES_CUBIN=1: the driver takes
// it for a real one, which CUBIN is compiled for; there it ends, because it loads none.
#pragma once

extern "C" {

// The Nth call from now of `function` ("*": of any function but cuEventQuery and those that make a
// context current) answers `error`. Functions that free
// things free them nevertheless, as CUDA does when it reports an earlier failure. Errors that a
// context does not survive stay: every later call answers with them. N of 0: never.
void fake_cuda_fail(const char* function, long nth, int error);
// Whether the failure that was asked for has been answered.
int fake_cuda_has_failed();
// Calls of `function` ("*": of any) so far.
long fake_cuda_call_count(const char* function);
// Objects and allocations that exist; writes their kinds and counts into `text`.
long fake_cuda_live_count(char* text, int size);
// Forgets failures, those to come and those that stay.
void fake_cuda_reset();
// The version that the stand-in for cuBLASLt says it is, 130100 at first.
void fake_cublaslt_set_version(long version);
// The same of cuDNN, 91901 at first.
void fake_cudnn_set_version(long version);
// How many devices cuDeviceGetCount tells.
void fake_cuda_set_device_count(int count);
// Operations of a stream start up to so many microseconds late.
void fake_cuda_set_delay_us(int most);
// Holds every stream before its next operation until it is called with 0.
void fake_cuda_hold_streams(int is_held);
// Answers what the GPU of the recording answered (recording.h); "": no longer. FAKE_CUDA_RECORDING
// names one from the start.
void fake_cuda_play(const char* path);

}  // extern "C"
