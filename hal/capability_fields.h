// SPDX-License-Identifier: Apache-2.0
// The rows of hal::Capabilities and hal::DeviceState: every field with its type and its meaning,
// once. Members, walks, reports and the published schema come from these lists. A name carries its
// unit.
#pragma once

// clang-format off
#define HY_IDENTITY_FIELDS(F)                                                                              \
  F(std::string, name, "What the vendor calls the device.")                                                \
  F(std::string, vendor, "Who made it.")                                                                   \
  F(DeviceType, type, "cpu, integrated-gpu, discrete-gpu, virtual-gpu or other.")                          \
  F(std::string, architecture, "Instruction set: x86_64, sm_90.")                                          \
  F(std::string, chip, "Code name of the chip or its family.")                                             \
  F(std::string, uuid, "Equal for the same silicon under two drivers.")                                    \
  F(std::string, luid, "Locally unique identifier, where the system has such.")                            \
  F(std::string, pci_address, "domain:bus:device.function.")                                               \
  F(std::string, model_id, "PCI vendor and device numbers, or a CPU's family, model and stepping.")        \
  F(std::string, driver_name, "The driver of Halyard and, behind it, the vendor's.")                       \
  F(std::string, driver_version, "Of the vendor's driver; of the kernel for a CPU.")                       \
  F(std::string, api_version, "Of the API that the driver offers.")                                        \
  F(std::string, conformance_version, "Of the conformance suite that the driver passed.")                  \
  F(std::string, management_version, "Of the vendor's management library.")                                \
  F(std::string, firmware_version, "Of the board's firmware or the CPU's microcode.")                      \
  F(std::string, c_library, "Version of the system's C library.")

#define HY_COMPUTE_FIELDS(F)                                                                               \
  F(int64_t, unit_count, "Physical units that run code: cores, multiprocessors.")                          \
  F(int64_t, gpc_count, "Graphics processing clusters that are enabled.")                                  \
  F(int64_t, gpc_count_of_chip, "Graphics processing clusters of the whole chip.")                         \
  F(int64_t, tpc_count, "Texture processing clusters that are enabled.")                                   \
  F(int64_t, tpcs_per_gpc_of_chip, "Texture processing clusters of one graphics processing cluster.")      \
  F(int64_t, units_per_tpc, "Multiprocessors of one texture processing cluster.")                          \
  F(int64_t, f32_lanes_per_unit, "Multiply-adds in f32 that one unit starts per clock.")                   \
  F(int64_t, f64_lanes_per_unit, "Multiply-adds in f64 that one unit starts per clock.")                   \
  F(int64_t, i32_lanes_per_unit, "Integer operations that one unit starts per clock.")                     \
  F(int64_t, special_lanes_per_unit, "Special functions that one unit starts per clock.")                  \
  F(int64_t, load_store_lanes_per_unit, "Loads and stores that one unit starts per clock.")                \
  F(int64_t, matrix_units_per_unit, "Tensor cores or tile units of one unit.")                             \
  F(int64_t, schedulers_per_unit, "Subgroups that one unit starts an instruction of per clock.")           \
  F(double, peak_f32_flops, "Lanes times highest clock, a multiply-add being two.")                        \
  F(double, peak_f64_flops, "The same in f64.")                                                            \
  F(int64_t, thread_count, "Hardware threads in all units.")                                               \
  F(int64_t, usable_worker_count, "Tasks that really run at once for this process.")                       \
  F(int64_t, affinity_thread_count, "Hardware threads left by affinity and cpuset.")                       \
  F(double, quota_threads, "CPU time per wall time that the control group allows.")                        \
  F(int64_t, package_count, "Processor packages.")                                                         \
  F(int64_t, numa_node_count, "Memory nodes.")                                                             \
  F(std::string, core_kinds, "Kinds of cores with their count, where they differ.")                        \
  F(int64_t, max_clock_hz, "Highest clock of the units.")                                                  \
  F(int64_t, base_clock_hz, "Clock that the vendor promises.")                                             \
  F(int64_t, vector_bytes, "Widest vector register.")                                                      \
  F(int64_t, vector_registers, "Vector registers that code can name.")                                     \
  F(int64_t, subgroup_size_min, "Workitems that run in step, fewest.")                                     \
  F(int64_t, subgroup_size_max, "Workitems that run in step, most.")                                       \
  F(bool, can_require_subgroup_size, "A kernel may ask for its subgroup size.")                            \
  F(int64_t, max_workgroup_size, "Workitems of one workgroup.")                                            \
  F(int64_t, max_workgroups_per_unit, "Workgroups that live on one unit at once.")                         \
  F(int64_t, max_workitems_per_unit, "Workitems that live on one unit at once.")                           \
  F(int64_t, workgroup_memory_bytes, "Memory that one workgroup may share, opt-in included.")              \
  F(int64_t, workgroup_memory_default_bytes, "The same without opting in.")                                \
  F(int64_t, workgroup_memory_per_unit_bytes, "What all workgroups of one unit share.")                    \
  F(int64_t, workgroup_memory_reserved_bytes, "Of each workgroup's, taken by the driver.")                 \
  F(int64_t, registers_per_unit, "Registers of 4 bytes of one unit.")                                      \
  F(int64_t, registers_per_workgroup, "Registers of 4 bytes that one workgroup may use.")                  \
  F(int64_t, registers_per_workitem, "Registers of 4 bytes that one workitem may use.")                    \
  F(int64_t, max_cluster_size, "Workgroups that share a cluster without opting in.")                       \
  F(int64_t, max_grid_x, "Workgroups of one dispatch.")                                                    \
  F(int64_t, max_grid_y, "Workgroups of one dispatch.")                                                    \
  F(int64_t, max_grid_z, "Workgroups of one dispatch.")                                                    \
  F(int64_t, max_push_constant_bytes, "Bytes of arguments that a dispatch carries.")                       \
  F(int64_t, constant_memory_bytes, "Read-only memory with a cache of its own.")                           \
  F(int64_t, compute_capability, "CUDA: 90 for 9.0.")                                                      \
  F(uint64_t, gpu_features, "Bits of base/gpu_kernel_abi.h.")                                              \
  F(uint64_t, cpu_features, "Bits of base/cpu_kernel_abi.h.")

#define HY_NUMERICS_FIELDS(F)                                                                              \
  F(bool, has_fma, "f32 multiply-add rounds once.")                                                        \
  F(bool, keeps_f32_denormals, "f32 kernels may keep subnormal numbers.")                                  \
  F(bool, keeps_f16_denormals, "f16 kernels may keep subnormal numbers.")                                  \
  F(bool, keeps_infinities, "Signed zeros, infinities and NaNs are kept in f32.")                          \
  F(bool, rounds_f32_to_even, "f32 arithmetic rounds to nearest even.")                                    \
  F(bool, has_integer_dot, "Four products of 8 bits in one instruction.")                                  \
  F(bool, matrix_flushes_denormals, "The matrix unit takes subnormal inputs for zero.")

#define HY_MEMORY_FIELDS(F)                                                                                \
  F(int64_t, total_bytes, "Memory of the device.")                                                         \
  F(int64_t, available_bytes, "Free when the device was opened.")                                          \
  F(int64_t, reserved_bytes, "Taken by driver and firmware.")                                              \
  F(int64_t, limit_bytes, "What this process may use: control group, option.")                             \
  F(int64_t, max_allocation_bytes, "Largest buffer.")                                                      \
  F(int64_t, buffer_alignment, "Of every buffer's address.")                                               \
  F(int64_t, page_bytes, "Page of the system.")                                                            \
  F(int64_t, huge_page_bytes, "Large page of the system.")                                                 \
  F(std::string, huge_pages, "When the system uses large pages unasked.")                                  \
  F(std::string, kind, "HBM3, GDDR6, DDR5.")                                                               \
  F(int64_t, stack_count, "Stacks of high-bandwidth memory.")                                              \
  F(int64_t, bus_bits, "Width of the interface.")                                                          \
  F(int64_t, max_clock_hz, "Highest clock of the memory; data moves twice per clock.")                     \
  F(double, peak_bytes_per_s, "Width times clock, both edges.")                                            \
  F(bool, is_host_memory, "The device works on the host's memory in place.")                               \
  F(bool, has_unified_addressing, "Host and device addresses never mean two things.")                      \
  F(bool, has_managed_memory, "Pages move between host and device by themselves.")                         \
  F(bool, can_access_pageable, "Kernels may address any memory of the process.")                           \
  F(bool, can_register_host, "Host memory can be pinned in place.")                                        \
  F(int64_t, import_alignment, "Of host memory that becomes a buffer.")                                    \
  F(int64_t, window_bytes, "Of the device's memory, that the bus shows to the host (BAR).")                \
  F(bool, is_resizable_bar, "The host can address the whole of the device's memory.")                      \
  F(int64_t, host_visible_bytes, "Device memory that the API lets the host map.")                          \
  F(int64_t, max_binding_bytes, "Of a buffer, that a kernel can address by a descriptor.")                 \
  F(bool, has_ecc, "Errors of the memory are corrected.")                                                  \
  F(bool, has_pools, "Allocation can be ordered with other work.")                                         \
  F(int64_t, min_storage_alignment, "Of offsets of storage buffers in descriptors.")                       \
  F(int64_t, non_coherent_alignment, "Of ranges that are flushed by hand.")

#define HY_QUEUES_FIELDS(F)                                                                                \
  F(int64_t, compute_count, "Queues of Halyard for kernels.")                                              \
  F(int64_t, copy_count, "Queues of Halyard for copies.")                                                  \
  F(int64_t, copy_engine_count, "Engines that copy beside kernels.")                                       \
  F(bool, has_concurrent_kernels, "Kernels of different queues may overlap.")                              \
  F(int64_t, priority_count, "Levels of priority of queues.")                                              \
  F(std::string, families, "Queue families of the API: uses and counts.")                                  \
  F(bool, has_timeline_semaphores, "Queues wait for counters.")                                            \
  F(bool, has_memory_waits, "Queues wait for values in memory.")                                           \
  F(std::string, replay, "How a recording runs again: graph, resubmission, task list.")                    \
  F(double, timestamp_period_ns, "Of the device's clock.")                                                 \
  F(int64_t, timestamp_bits, "Of the device's clock.")

#define HY_INTEROP_FIELDS(F)                                                                               \
  F(std::string, memory_handles, "Handles as which memory can be shared.")                                 \
  F(std::string, semaphore_handles, "Handles as which semaphores can be shared.")                          \
  F(bool, can_import_host_memory, "Host memory can become a buffer without a copy.")                       \
  F(bool, has_ipc, "Memory can be shared with another process.")                                           \
  F(bool, has_dma_buf, "Memory can be exported as a dma-buf.")                                             \
  F(bool, has_direct_rdma, "Other devices on the bus may read the memory.")

#define HY_LINKS_FIELDS(F)                                                                                 \
  F(int64_t, pcie_generation_max, "Highest that device and slot agree on.")                                \
  F(int64_t, pcie_width_max, "Lanes that device and slot agree on.")                                       \
  F(double, pcie_peak_bytes_per_s, "Of one direction, from generation and width, before packets.")         \
  F(int64_t, nvlink_count, "NVLinks that are up.")                                                         \
  F(int64_t, nvlink_version, "Generation of NVLink.")                                                      \
  F(double, nvlink_peak_bytes_per_s, "Of all NVLinks in one direction.")                                   \
  F(int64_t, numa_node, "Of the host, that the device is nearest to.")                                     \
  F(std::string, near_cpus, "CPUs of the host that the device is nearest to.")

#define HY_PARTITION_FIELDS(F)                                                                             \
  F(bool, is_mig_enabled, "The device is cut into instances.")                                             \
  F(int64_t, mig_instance_max, "Instances that it can be cut into.")                                       \
  F(int64_t, mig_instance_count, "Instances that it is cut into.")                                         \
  F(std::string, mig_instances, "Their profiles: slices of the units and memory.")                         \
  F(bool, is_mig_change_pending, "The next reset cuts the device, or makes it whole.")                     \
  F(bool, is_mps_enabled, "Its programs share it through the Multi-Process Service (MPS).")                \
  F(std::string, compute_mode, "Who may use it: default, exclusive-process, prohibited.")                  \
  F(std::string, virtualization, "none, passthrough, vgpu, host; for a CPU whether it is a guest.")        \
  F(bool, has_display, "A display is attached.")                                                           \
  F(bool, has_watchdog, "Long kernels are killed.")                                                        \
  F(bool, is_persistent, "The driver stays loaded between processes.")

#define HY_TOOLS_FIELDS(F)                                                                                 \
  F(std::string, code_formats, "Code that the device takes.")                                              \
  F(std::string, pipeline_cache_uuid, "What compiled pipelines are good for.")                             \
  F(int64_t, perf_event_paranoid, "What the system lets this user count; 2 or less is enough.")            \
  F(bool, has_invariant_clock, "The time stamp counter runs at one speed.")                                \
  F(bool, can_count, "This user may read the device's performance counters.")                              \
  F(std::string, libraries, "Of the vendor, that are installed: profiler, compiler, products.")

#define HY_CACHE_FIELDS(F)                                                                                 \
  F(int64_t, level, "From 1.")                                                                             \
  F(int64_t, size_bytes, "Of one.")                                                                        \
  F(int64_t, line_bytes, "What moves at once.")                                                            \
  F(int64_t, ways, "Places that a line may stand in.")                                                     \
  F(int64_t, instance_count, "On the device.")                                                             \
  F(int64_t, threads_per_instance, "Hardware threads that share one.")                                     \
  F(int64_t, persisting_bytes, "That kernels may keep data in.")

#define HY_FLEXIBLE_MATRIX_FIELDS(F)                                                                       \
  F(std::string, shape, "Least MxNxK, whose multiples are products too, inputs -> sums.")          \
  F(std::string, scope, "Who computes one together: subgroup, workgroup.")                                 \
  F(int64_t, workgroup_size, "Workitems that the workgroup must have.")

#define HY_NUMA_NODE_FIELDS(F)                                                                             \
  F(int64_t, os_index, "Number that the system uses.")                                                     \
  F(int64_t, memory_bytes, "Of this node.")                                                                \
  F(int64_t, unit_count, "Cores of this node.")                                                            \
  F(double, peak_bytes_per_s, "From its own cores, by the tables of the firmware.")                        \
  F(double, latency_ns, "The same.")                                                                       \
  F(std::string, distances, "To each node, relative to 10 for itself.")

#define HY_HEAP_FIELDS(F)                                                                                  \
  F(int64_t, size_bytes, "Of the heap.")                                                                   \
  F(int64_t, budget_bytes, "What this process should use of it now.")                                      \
  F(bool, is_device_local, "It is the device's own memory.")                                               \
  F(std::string, kinds, "Memory types on it.")

#define HY_DTYPE_FIELDS(F)                                                                                 \
  F(std::string, dtype, "Name of the type.")                                                               \
  F(bool, has_storage, "Kernels load and store it.")                                                       \
  F(bool, has_arithmetic, "Kernels compute in it.")                                                        \
  F(bool, has_matrix, "The matrix unit multiplies it.")                                                    \
  F(bool, has_atomic_add, "Atomic addition in memory.")                                                    \
  F(double, matrix_ops_per_clock, "Of the matrix units of one unit, dense, a multiply-add being two.")     \
  F(double, peak_matrix_ops_per_s, "The same of the device at its highest clock.")

// Groups of single fields, and lists: Group(structure, member, rows).
#define HY_CAPABILITY_GROUPS(Group)                                                                        \
  Group(Identity, identity, HY_IDENTITY_FIELDS)                                                            \
  Group(Compute, compute, HY_COMPUTE_FIELDS)                                                               \
  Group(Numerics, numerics, HY_NUMERICS_FIELDS)                                                            \
  Group(Memory, memory, HY_MEMORY_FIELDS)                                                                  \
  Group(Queues, queues, HY_QUEUES_FIELDS)                                                                  \
  Group(Interop, interop, HY_INTEROP_FIELDS)                                                               \
  Group(Links, links, HY_LINKS_FIELDS)                                                                     \
  Group(Partition, partition, HY_PARTITION_FIELDS)                                                         \
  Group(Tools, tools, HY_TOOLS_FIELDS)

#define HY_CAPABILITY_LISTS(List)                                                                          \
  List(Cache, caches, HY_CACHE_FIELDS)                                                                     \
  List(NumaNode, numa_nodes, HY_NUMA_NODE_FIELDS)                                                          \
  List(Heap, heaps, HY_HEAP_FIELDS)                                                                        \
  List(DtypeSupport, dtypes, HY_DTYPE_FIELDS)                                                              \
  List(FlexibleMatrix, flexible_matrices, HY_FLEXIBLE_MATRIX_FIELDS)

// What changes while the device is open.
#define HY_STATE_FIELDS(F)                                                                                 \
  F(int64_t, clock_hz, "Of the units now.")                                                                \
  F(int64_t, memory_clock_hz, "Of the memory now.")                                                        \
  F(std::string, throttle_reasons, "Why the clock is not the highest; none when nothing holds it back.")   \
  F(std::string, performance_state, "P0 is the fastest; the governor of a CPU.")                           \
  F(double, temperature_c, "Of the chip.")                                                                 \
  F(double, power_w, "Drawn now.")                                                                         \
  F(double, power_limit_w, "What the clock is cut down for.")                                              \
  F(double, energy_j, "Since the driver was loaded.")                                                      \
  F(double, utilization, "Share of the last moment in which a kernel ran; for a CPU of its threads.")      \
  F(int64_t, available_bytes, "Free memory now.")                                                          \
  F(int64_t, process_count, "Processes that compute on it.")                                               \
  F(int64_t, mps_process_count, "Processes that compute on it through the Multi-Process Service (MPS).")   \
  F(double, load_average, "Threads that wanted to run in the last minute.")                                \
  F(int64_t, quota_pauses, "Periods so far in which the control group used up its quota and was paused.")  \
  F(double, quota_paused_s, "How long its threads were paused for that, each counted.")                    \
  F(int64_t, pcie_generation, "Now; a sleeping device lowers it.")                                         \
  F(int64_t, pcie_width, "Lanes in use now.")                                                              \
  F(int64_t, pcie_replays, "Packets so far that the bus had to send again.")                               \
  F(int64_t, nvlink_errors, "Of all NVLinks so far: replays, recoveries and wrong checksums.")             \
  F(double, temperature_limit_c, "At which the clock is cut down.")                                        \
  F(int64_t, corrected_memory_errors, "Since the driver was loaded, or the system started.")               \
  F(int64_t, uncorrected_memory_errors, "The same; their data was lost.")                                  \
  F(int64_t, retired_memory, "Rows or pages of the memory that others stand in for.")                      \
  F(std::string, memory_repair, "none, pending until the next reset, or failed.")                          \
  F(std::string, faults, "That the driver reported since the device was opened: none, Xid numbers, or in words.")
// clang-format on
