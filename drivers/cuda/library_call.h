// SPDX-License-Identifier: Apache-2.0
// What NVIDIA's libraries compute in place of kernels of ours (base/gpu_library_call.h): a library
// in the context of one device, and one call that a loaded record stands for. Capturing into graphs
// is here too; when and where is in replay.h.
#pragma once

#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "base/gpu_library_call.h"
#include "drivers/cuda/context.h"

namespace halyard::drivers::cuda {

// One call with fixed sizes and addresses that are given each time. Thread-safe. The library
// outlives it.
class LibraryCall {
 public:
  virtual ~LibraryCall() = default;
  // Puts it onto the stream. `addresses`: of the entry's bindings. The context is current.
  virtual Status Enqueue(std::span<const uint64_t> addresses, CUstream stream) = 0;
};

// A library in the context of one device. Thread-safe. Made when the first program asks for it.
class VendorLibrary {
 public:
  virtual ~VendorLibrary();

  // "cuBLASLt 13.1.0, libcublasLt.so.13".
  virtual std::string Describe() const = 0;
  // What a record says is checked: sizes, strides, bindings. INCOMPATIBLE where the library has
  // another version, was asked on another device, or does not take the choice any more.
  virtual Result<std::unique_ptr<LibraryCall>> Create(const GpuLibraryCall& call,
                                                      uint32_t binding_count) = 0;
  // `wanted` with each of the ways that the library proposes, best first, at most `most`; none
  // where it knows none.
  virtual Result<std::vector<GpuLibraryCall>> Propose(const GpuLibraryCall& wanted,
                                                      size_t most) = 0;

  Context& context() const { return context_; }
  uint64_t device_hash() const { return device_hash_; }

  // What `call` puts onto a stream, as a graph that the caller destroys. The context is current.
  // One at a time.
  Result<CUgraph> Capture(LibraryCall& call, std::span<const uint64_t> addresses);

 protected:
  // The context outlives the library; `device_hash`: of what GpuLibraryChoice says.
  VendorLibrary(Context& context, uint64_t device_hash)
      : context_(context), device_hash_(device_hash) {}
  // UNAVAILABLE where the driver has no stream capture. The context is current.
  Status OpenCapture();

 private:
  Context& context_;
  const uint64_t device_hash_;
  std::mutex capture_mutex_;  // the stream
  CUstream capture_stream_ = nullptr;
};

// The library of a kind. UNAVAILABLE says why there is none.
Result<std::unique_ptr<VendorLibrary>> OpenVendorLibrary(GpuLibraryKind kind, Context& context,
                                                         uint64_t device_hash);

// Of what every record says of its choice: its workspace lies in one of the bindings.
Status CheckLibraryWorkspace(const GpuLibraryCall& call, uint32_t binding_count);
// The aligned start of the workspace; null where there is none.
void* LibraryWorkspace(const GpuLibraryCall& call, std::span<const uint64_t> addresses);
// What is known of the alignment of elements from `offset` on in any binding, in bytes.
int64_t LibraryAlignment(int64_t offset, uint32_t dtype);

}  // namespace halyard::drivers::cuda
