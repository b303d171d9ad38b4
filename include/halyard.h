/* SPDX-License-Identifier: Apache-2.0 */
/* halyard.h: the whole public interface of Halyard, in C11. What is not in this file is not interface.
 *
 * Halyard compiles a neural-network graph (an ONNX file, or a graph built here) into a program for the
 * devices of this machine, and runs it. The path is: instance -> devices -> program -> session -> run.
 *
 * Results. Every function that can fail returns hy_result: 0 is success, every other value a failure.
 * After a failure hy_last_error() gives the sentence that explains it, for the last call on this thread.
 * Failures of asynchronous work stay with their event: ask hy_event_status. Out parameters are untouched
 * when a call fails, unless the function says otherwise. No call throws, aborts or prints; messages go to
 * the log sink only.
 *
 * Ownership. What a create, open, compile, load, import or submit function returns is one reference that
 * the caller releases with the release function of its type; releasing NULL does nothing. Objects keep
 * what they were made from alive, so the order of releases is free. Arguments are borrowed until the call
 * returns, unless the function says otherwise. Text and pointers in info structs are borrowed from the
 * object asked and live as long as it. No memory crosses the border to be freed on the other side.
 *
 * Threads. Instances, devices, programs, buffers and events: any thread, at the same time. Graphs and
 * sessions: one thread at a time; a second one gets HY_BUSY and changes nothing. Callbacks run on the
 * calling thread unless they say otherwise and must not call back into Halyard except hy_result_name and
 * hy_last_error. A calling thread needs 64 KiB of stack: where less than 1 MiB is left, what needs more, such as
 * compiling, runs on a thread of the library, with its callbacks, while the call waits. After fork() the child gets
 * HY_UNAVAILABLE from every call but the release functions, which do nothing there.
 *
 * Growth. Descriptor and info structs start with struct_size, type and next; initialise them with their
 * HY_*_INIT. A library accepts a shorter struct (missing fields are defaults) and a longer one whose tail
 * it does not know is zero; a tail that is not zero is HY_INCOMPATIBLE. `next` is NULL or
 * leads to a struct that the function names; any other is HY_INVALID_ARGUMENT for descriptors and skipped
 * for info structs. Structs in arrays all
 * have the struct_size of the first. Numbers of enumerations never change.
 *
 * Strings are UTF-8 pointers with lengths, paths too; {NULL, 0} is the empty string. */
#ifndef HALYARD_H_
#define HALYARD_H_

#include <stddef.h>
#include <stdint.h>

#if defined(HALYARD_STATIC)
#define HY_API
#else
#define HY_API __attribute__((visibility("default")))
#endif
#define HY_NODISCARD __attribute__((warn_unused_result))

#ifdef __cplusplus
extern "C" {
#endif

/* The version of this header: major * 1000000 + minor * 1000 + patch. */
#define HY_VERSION_MAJOR 0
#define HY_VERSION_MINOR 1
#define HY_VERSION_PATCH 0
#define HY_VERSION (HY_VERSION_MAJOR * 1000000 + HY_VERSION_MINOR * 1000 + HY_VERSION_PATCH)

/* The largest rank of a tensor that crosses this interface. */
#define HY_MAX_RANK 16

/* --- Results -------------------------------------------------------------------------------------- */

/* Exit statuses of the command `halyard`: 0 done; 1 wrong usage; 2 for HY_INVALID_ARGUMENT, HY_NOT_FOUND,
 * HY_OUT_OF_RANGE, HY_UNIMPLEMENTED, HY_DATA_LOSS and HY_INCOMPATIBLE (the model, program or input); 3 for all
 * others (a device or the system); 4 the result is not as expected (--expect-dir, --diff, --fail-if,
 * the check of bench); 130 interrupted. A device that is not there is a failure of a device. */
typedef int32_t hy_result;
enum {
  HY_OK = 0,
  HY_CANCELLED = 1,            /* what was asked for was stopped, as by HALYARD_STOP_AFTER */
  HY_INVALID_ARGUMENT = 3,     /* the caller or the model is wrong */
  HY_DEADLINE_EXCEEDED = 4,    /* the time given to a wait is over; the work goes on */
  HY_NOT_FOUND = 5,            /* a file, device, driver, name or index does not exist */
  HY_OUT_OF_MEMORY = 8,        /* of the host or a device, or more than a memory cap */
  HY_FAILED_PRECONDITION = 9,  /* the object is not in the state that the call needs */
  HY_ABORTED = 10,             /* a callback of the caller stopped the call */
  HY_OUT_OF_RANGE = 11,        /* an index or size beyond its limit, also of a running kernel */
  HY_UNIMPLEMENTED = 12,       /* an op or a feature that this version does not have */
  HY_INTERNAL = 13,            /* a defect of Halyard, reported with its place */
  HY_UNAVAILABLE = 14,         /* something outside is missing: a driver, the compiler library, a disk */
  HY_DATA_LOSS = 15,           /* a file is corrupted */
  HY_DEVICE_LOST = 32,         /* the device failed and is gone for this process */
  HY_INCOMPATIBLE = 33,        /* made for another device, version or a newer library */
  HY_BUSY = 34,                /* another thread is using the object */
  HY_INCOMPLETE = 64           /* the array was too short; it is filled and the count says what is there */
};

/* --- Plain types ---------------------------------------------------------------------------------- */

typedef struct hy_string {
  const char* data; /* UTF-8, not terminated */
  size_t size;      /* bytes */
} hy_string;

/* Initialises a hy_string with a literal. */
#define HY_STRING(literal) {literal, sizeof(literal) - 1}

typedef int32_t hy_dtype;
enum {
  HY_DTYPE_INVALID = 0,
  HY_DTYPE_BOOL = 1, /* one byte, 0 or 1 */
  HY_DTYPE_I8 = 2,
  HY_DTYPE_U8 = 3,
  HY_DTYPE_I16 = 4,
  HY_DTYPE_U16 = 5,
  HY_DTYPE_I32 = 6,
  HY_DTYPE_U32 = 7,
  HY_DTYPE_I64 = 8,
  HY_DTYPE_U64 = 9,
  HY_DTYPE_F16 = 10,
  HY_DTYPE_BF16 = 11,
  HY_DTYPE_F32 = 12,
  HY_DTYPE_F64 = 13,
  HY_DTYPE_F8E4M3 = 14,
  HY_DTYPE_F8E5M2 = 15,
  HY_DTYPE_I4 = 16, /* packed, lowest bits first */
  HY_DTYPE_U4 = 17
};

typedef int32_t hy_struct_type;
enum {
  HY_STRUCT_INSTANCE_DESC = 1,
  HY_STRUCT_DRIVER_INFO = 2,
  HY_STRUCT_DEVICE_INFO = 3,
  HY_STRUCT_GRAPH_ATTRIBUTE = 4,
  HY_STRUCT_COMPILE_DESC = 5,
  HY_STRUCT_PROGRAM_LOAD_DESC = 6,
  HY_STRUCT_TENSOR_INFO = 7,
  HY_STRUCT_MEMORY_INFO = 8,
  HY_STRUCT_SESSION_DESC = 9,
  HY_STRUCT_TENSOR = 10,
  HY_STRUCT_SYMBOL_INFO = 11,
  HY_STRUCT_API = 12,
  HY_STRUCT_BUFFER_DESC = 13,
  HY_STRUCT_DEVICE_IDENTITY = 14,
  HY_STRUCT_DEVICE_COMPUTE = 15,
  HY_STRUCT_DEVICE_MEMORY = 16,
  HY_STRUCT_DEVICE_STATE = 17,
  HY_STRUCT_PROPERTY = 18,
  HY_STRUCT_MATRIX_SHAPE = 19,
  HY_STRUCT_LINK_INFO = 20,
  HY_STRUCT_PROBE_DESC = 21,
  HY_STRUCT_COMMAND_TIME = 22
};

typedef struct hy_instance hy_instance_t;
typedef struct hy_device hy_device_t;
typedef struct hy_graph hy_graph_t;
typedef struct hy_program hy_program_t;
typedef struct hy_session hy_session_t;
typedef struct hy_buffer hy_buffer_t;
typedef struct hy_event hy_event_t;

/* Receives a piece of output. A result other than HY_OK stops the call, which then returns it. */
typedef hy_result (*hy_writer)(void* context, const void* data, size_t size_bytes);

typedef int32_t hy_log_level;
enum { HY_LOG_ERROR = 0, HY_LOG_WARNING = 1, HY_LOG_INFO = 2, HY_LOG_DEBUG = 3 };
/* May run on any thread, also on several at once. */
typedef void (*hy_log_sink)(void* context, hy_log_level level, hy_string message);

typedef int32_t hy_policy;
enum {
  HY_POLICY_DEFAULT = 0,  /* what the instance says; there: fall back, with a warning for a device */
  HY_POLICY_ERROR = 1,    /* the call fails */
  HY_POLICY_FALLBACK = 2, /* go on with what there is; every fallback is a record of the report */
  HY_POLICY_FALLBACK_WARN = 3 /* the same, and a warning in the log */
};

/* --- Library -------------------------------------------------------------------------------------- */

/* The version of the library, composed as HY_VERSION. Any thread; cannot fail. */
HY_API uint32_t hy_version(void);

/* "OUT_OF_MEMORY" and so on; "UNKNOWN_CODE" for other numbers. Static text. Any thread; cannot fail. */
HY_API hy_string hy_result_name(hy_result result);

/* The explanation of the failure that the last call on this thread returned: a sentence that names the
 * object, the value and the limit. Empty when that call succeeded. Borrowed until the next call on this
 * thread. Any thread; cannot fail. */
HY_API hy_string hy_last_error(void);

/* --- Instance ------------------------------------------------------------------------------------- */

typedef struct hy_instance_desc {
  uint32_t struct_size;
  hy_struct_type type;
  const void* next;
  hy_log_sink log;            /* NULL: nothing is written anywhere */
  void* log_context;
  hy_log_level log_level;     /* least severe level that reaches the sink */
  hy_policy on_missing_device;   /* a device asked for is not there, or was lost (default: fallback) */
  hy_policy on_unsupported_op;   /* no device compiles an op (default: fallback to the interpreter) */
  const hy_string* drivers;   /* the drivers that may be opened; NULL: all */
  size_t driver_count;
  hy_string cache_folder;     /* of compiled programs; empty: HALYARD_CACHE_DIR, or the user's cache folder;
                                 "off": none. Must belong to this user and be writable by nobody else. */
} hy_instance_desc;
#define HY_INSTANCE_DESC_INIT                                                                       \
  {sizeof(hy_instance_desc), HY_STRUCT_INSTANCE_DESC, NULL, NULL, NULL, HY_LOG_WARNING, HY_POLICY_DEFAULT, \
   HY_POLICY_DEFAULT, NULL, 0, {NULL, 0}}

/* The root of everything; opens no driver yet. `desc` may be NULL for the defaults. Environment variables
 * whose value they do not take (docs/environment.md) are warnings in the log, once a process.
 * Any thread. Fails with HY_INVALID_ARGUMENT for a bad struct or an unknown driver name. */
HY_API HY_NODISCARD hy_result hy_instance_create(const hy_instance_desc* desc, hy_instance_t** out_instance);
/* Any thread; cannot fail. */
HY_API void hy_instance_release(hy_instance_t* instance);

/* --- Drivers and devices -------------------------------------------------------------------------- */

typedef struct hy_driver_info {
  uint32_t struct_size;
  hy_struct_type type;
  const void* next;
  hy_string name;       /* "cpu", "cuda", "vulkan" */
  hy_result status;     /* HY_OK when it is open */
  hy_string reason;     /* why it is not: which library, symbol or call; when it is open: the devices that
                           it sees and cannot use, each with the reason, or empty */
  uint32_t device_count;
} hy_driver_info;
#define HY_DRIVER_INFO_INIT \
  {sizeof(hy_driver_info), HY_STRUCT_DRIVER_INFO, NULL, {NULL, 0}, HY_OK, {NULL, 0}, 0}

/* The drivers of this build, those that failed to open included. `infos` may be NULL to count; otherwise
 * every element is initialised by the caller, and *count is its length. On return *count is the number of
 * drivers; HY_INCOMPLETE when it is more than fit. Texts live as long as the instance. Any thread. */
HY_API HY_NODISCARD hy_result hy_enumerate_drivers(hy_instance_t* instance, hy_driver_info* infos,
                                                   size_t* count);

typedef int32_t hy_device_kind;
enum {
  HY_DEVICE_KIND_OTHER = 0,
  HY_DEVICE_KIND_CPU = 1,
  HY_DEVICE_KIND_INTEGRATED_GPU = 2,
  HY_DEVICE_KIND_DISCRETE_GPU = 3,
  HY_DEVICE_KIND_VIRTUAL_GPU = 4
};

typedef struct hy_device_info {
  uint32_t struct_size;
  hy_struct_type type;
  const void* next;
  hy_string path;         /* "cpu:0"; what hy_device_open and `--device` take */
  hy_string name;         /* what the vendor calls it */
  hy_string driver;       /* "cpu" */
  hy_string uuid;         /* equal for the same silicon under two drivers; empty when unknown */
  /* The rest is filled by hy_device_get_info only. -1: unknown. */
  hy_device_kind kind;
  int64_t unit_count;     /* cores or multiprocessors */
  int64_t worker_count;   /* tasks that really run at once for this process */
  int64_t memory_bytes;
  int64_t memory_limit_bytes; /* what this process may use */
  int64_t buffer_alignment;
  /* By hy_enumerate_devices only: why `auto`, which is hy_compile_desc without devices, leaves it out; empty
   * where it takes it. It takes the CPU, every CUDA device, and every GPU that Vulkan alone shows. */
  hy_string left_out;
} hy_device_info;
#define HY_DEVICE_INFO_INIT                                                                     \
  {sizeof(hy_device_info), HY_STRUCT_DEVICE_INFO, NULL, {NULL, 0}, {NULL, 0}, {NULL, 0}, {NULL, 0}, \
   HY_DEVICE_KIND_OTHER, -1, -1, -1, -1, -1, {NULL, 0}}

/* The devices of all drivers that open, without opening the devices. Arrays as for
 * hy_enumerate_drivers; texts live as long as the instance. Any thread. */
HY_API HY_NODISCARD hy_result hy_enumerate_devices(hy_instance_t* instance, hy_device_info* infos,
                                                   size_t* count);

/* Opens "cpu", "cpu:0" or "cpu:0?threads=2". The same path gives the same device while it is open.
 * Any thread. HY_INVALID_ARGUMENT for a bad path, an option or a driver that does not exist (it lists those
 * that do), HY_UNAVAILABLE when the driver does not open, HY_NOT_FOUND when it has no such device. */
HY_API HY_NODISCARD hy_result hy_device_open(hy_instance_t* instance, hy_string path,
                                             hy_device_t** out_device);
/* Any thread; cannot fail. */
HY_API void hy_device_release(hy_device_t* device);
/* Fills `info`, which the caller initialises, and what its `next` chains of the four structs below. Texts live
 * as long as the device, that of hy_device_state until the next call on this thread. Any thread. */
HY_API HY_NODISCARD hy_result hy_device_get_info(hy_device_t* device, hy_device_info* info);

/* Chains of hy_device_info. Unknown: -1, and empty for texts. */
typedef struct hy_device_identity {
  uint32_t struct_size;
  hy_struct_type type;
  const void* next;
  hy_string vendor;
  hy_string architecture;   /* "x86_64", "sm_90" */
  hy_string chip;
  hy_string pci_address;    /* "0000:3b:00.0" */
  hy_string vendor_driver;  /* the driver behind Halyard's */
  hy_string driver_version;
  hy_string api_version;
} hy_device_identity;
#define HY_DEVICE_IDENTITY_INIT                                                               \
  {sizeof(hy_device_identity), HY_STRUCT_DEVICE_IDENTITY, NULL, {NULL, 0}, {NULL, 0}, {NULL, 0}, \
   {NULL, 0}, {NULL, 0}, {NULL, 0}, {NULL, 0}}

typedef struct hy_device_compute {
  uint32_t struct_size;
  hy_struct_type type;
  const void* next;
  int64_t max_clock_hz;
  int64_t f32_lanes_per_unit;
  int64_t matrix_units_per_unit;
  int64_t vector_bytes;          /* CPUs */
  int64_t subgroup_size_min;     /* GPUs, as the rest */
  int64_t subgroup_size_max;
  int64_t max_workgroup_size;
  int64_t workgroup_memory_bytes;
  int64_t registers_per_unit;    /* of 4 bytes */
  double peak_f32_flops;
} hy_device_compute;
#define HY_DEVICE_COMPUTE_INIT \
  {sizeof(hy_device_compute), HY_STRUCT_DEVICE_COMPUTE, NULL, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1}

typedef struct hy_device_memory {
  uint32_t struct_size;
  hy_struct_type type;
  const void* next;
  int64_t available_bytes;   /* now */
  int64_t max_allocation_bytes;
  int64_t bus_bits;
  int64_t last_cache_bytes;  /* of the largest level, all its instances */
  double peak_bytes_per_s;
  int32_t is_host_memory;    /* 1, 0, or -1 for unknown, as the rest */
  int32_t has_ecc;
  int32_t is_resizable_bar;
  int32_t reserved;
  /* What the library holds of the device, page-locked host memory too, for this hy_device_open: */
  int64_t allocated_bytes;      /* now, */
  int64_t allocated_peak_bytes; /* and at most at once since it was opened */
} hy_device_memory;
#define HY_DEVICE_MEMORY_INIT                                                                        \
  {sizeof(hy_device_memory), HY_STRUCT_DEVICE_MEMORY, NULL, -1, -1, -1, -1, -1, -1, -1, -1, 0, -1, -1}

/* Read at each call. */
typedef struct hy_device_state {
  uint32_t struct_size;
  hy_struct_type type;
  const void* next;
  int64_t clock_hz;
  int64_t memory_clock_hz;
  double temperature_c;
  double power_w;
  double power_limit_w;
  double utilization;         /* 0 to 1 */
  double load_average;        /* of the host */
  hy_string throttle_reasons; /* "none", "idle", "software power cap", ... */
} hy_device_state;
#define HY_DEVICE_STATE_INIT \
  {sizeof(hy_device_state), HY_STRUCT_DEVICE_STATE, NULL, -1, -1, -1, -1, -1, -1, -1, {NULL, 0}}

typedef int32_t hy_property_kind;
enum { HY_PROPERTY_TEXT = 0, HY_PROPERTY_INTEGER = 1, HY_PROPERTY_REAL = 2, HY_PROPERTY_FLAG = 3 };
typedef int32_t hy_property_source;
enum {
  HY_SOURCE_UNKNOWN = 0, /* nobody could tell; the value means nothing */
  HY_SOURCE_API = 1,
  HY_SOURCE_OS = 2,
  HY_SOURCE_TABLE = 3,
  HY_SOURCE_MEASURED = 4
};
typedef struct hy_property {
  uint32_t struct_size;
  hy_struct_type type;
  const void* next;
  hy_string name;
  hy_property_kind kind;
  hy_property_source source;
  int64_t integer;   /* INTEGER; 0 or 1 for FLAG */
  double real;       /* REAL */
  hy_string text;    /* the value as text, of every kind */
  hy_string doc;     /* what it means */
} hy_property;
#define HY_PROPERTY_INIT                                                                              \
  {sizeof(hy_property), HY_STRUCT_PROPERTY, NULL, {NULL, 0}, HY_PROPERTY_TEXT, HY_SOURCE_UNKNOWN, 0, 0, \
   {NULL, 0}, {NULL, 0}}

/* Every field of hy_device_report, for tools; `prefix` keeps those whose names begin with it ("compute.",
 * "state.clock_hz"), empty all. Arrays as for hy_enumerate_drivers; texts live until the next call on this
 * thread. Any thread. HY_NOT_FOUND when no field begins so. */
HY_API HY_NODISCARD hy_result hy_device_properties(hy_device_t* device, hy_string prefix,
                                                   hy_property* properties, size_t* count);

/* A product of the matrix unit: c[m,n] += a[m,k] * b[k,n]. */
typedef struct hy_matrix_shape {
  uint32_t struct_size;
  hy_struct_type type;
  const void* next;
  hy_dtype input;
  hy_dtype output;
  int32_t m;
  int32_t n;
  int32_t k;
  hy_property_source source;
} hy_matrix_shape;
#define HY_MATRIX_SHAPE_INIT                                                                           \
  {sizeof(hy_matrix_shape), HY_STRUCT_MATRIX_SHAPE, NULL, HY_DTYPE_INVALID, HY_DTYPE_INVALID, 0, 0, 0, \
   HY_SOURCE_UNKNOWN}

/* The shapes of the device's matrix units, in the types that hy_dtype has. Arrays as for
 * hy_enumerate_drivers. Any thread. */
HY_API HY_NODISCARD hy_result hy_device_matrix_shapes(hy_device_t* device, hy_matrix_shape* shapes,
                                                      size_t* count);

typedef int32_t hy_link_kind;
enum {
  HY_LINK_NONE = 0,
  HY_LINK_SAME_MEMORY = 1,
  HY_LINK_HOST_STAGED = 2, /* through memory of the host */
  HY_LINK_PCIE = 3,
  HY_LINK_NVLINK = 4
};
typedef struct hy_link_info {
  uint32_t struct_size;
  hy_struct_type type;
  const void* next;
  hy_link_kind kind;
  int32_t can_access_peer;    /* 1: kernels of the first address the second's memory */
  int32_t can_copy_direct;    /* 1: copies need no memory of the host */
  int32_t has_native_atomics; /* -1: unknown */
  int32_t is_same_silicon;    /* 1: one chip under two drivers, which share its units */
  int32_t rank;               /* among the driver's links, 0 the fastest; -1: unknown */
  hy_string nearest;          /* what both have in common: "PCIe switch", ...; until the next call on this thread */
} hy_link_info;
#define HY_LINK_INFO_INIT \
  {sizeof(hy_link_info), HY_STRUCT_LINK_INFO, NULL, HY_LINK_NONE, 0, 0, -1, 0, -1, {NULL, 0}}

/* How bytes get from one device to another one. Any thread. */
HY_API HY_NODISCARD hy_result hy_link_get_info(hy_device_t* from, hy_device_t* to, hy_link_info* info);

typedef int32_t hy_report_format;
enum { HY_FORMAT_TEXT = 0, HY_FORMAT_JSON = 1, HY_FORMAT_DOT = 2, HY_FORMAT_HTML = 3 };

typedef struct hy_probe_desc {
  uint32_t struct_size;
  hy_struct_type type;
  const void* next;
  double seconds_per_device;  /* what has not begun by then is left out; 0: 10 */
  uint32_t again;             /* 1: measures although the cache has results for these devices */
  uint32_t no_kernels;        /* 1: copies alone; needs no compiler library */
  uint32_t no_tune;           /* 1: products run with the schedule that the model prefers */
  /* Before each reading, on the calling thread; both may be NULL. `done` of the whole, from 0 to 1. */
  void (*progress)(void* context, hy_string what, double done);
  int32_t (*should_stop)(void* context); /* not 0: the call returns what there is */
  void* context;
  uint32_t stored_only; /* 1: measures nothing; the report lacks the devices that the cache does not have */
} hy_probe_desc;
#define HY_PROBE_DESC_INIT {sizeof(hy_probe_desc), HY_STRUCT_PROBE_DESC, NULL, 0, 0, 0, 0, NULL, NULL, NULL, 0}

/* Measures what the devices reach, and copies between them, or takes what the cache has for exactly these
 * devices and drivers; new results are kept there. Writes a report, as text or JSON. `desc` may be NULL.
 * Blocks for seconds; any thread, but two calls at once disturb each other. HY_UNIMPLEMENTED for other
 * formats; a reading that fails, and a device that is lost, is a note of the report. Of each device the report says
 * whether it is complete and which parts it lacks; what lacks a part that the cache has is not kept. */
HY_API HY_NODISCARD hy_result hy_devices_probe(hy_instance_t* instance, hy_device_t* const* devices,
                                               size_t count, const hy_probe_desc* desc,
                                               hy_report_format format, hy_writer writer, void* context);

/* Writes every capability that is known with its source (api, os, table, measured), as text or JSON.
 * Any thread. HY_UNIMPLEMENTED for other formats; what the writer returns when it stops. */
HY_API HY_NODISCARD hy_result hy_device_report(hy_device_t* device, hy_report_format format,
                                               hy_writer writer, void* context);

/* --- Graphs --------------------------------------------------------------------------------------- */

/* A value of one graph. */
typedef uint32_t hy_value;
#define HY_VALUE_NONE UINT32_MAX /* an optional operand that is absent */

typedef int32_t hy_attribute_kind;
enum {
  HY_ATTRIBUTE_INT = 0,
  HY_ATTRIBUTE_FLOAT = 1,
  HY_ATTRIBUTE_STRING = 2,
  HY_ATTRIBUTE_DTYPE = 3,
  HY_ATTRIBUTE_INTS = 4,
  HY_ATTRIBUTE_FLOATS = 5,
  HY_ATTRIBUTE_EXPRS = 6 /* sizes that may name symbols, as one text: "n, 2*n" */
};
typedef struct hy_graph_attribute {
  uint32_t struct_size;
  hy_struct_type type;
  const void* next;
  hy_string name;
  hy_attribute_kind kind;
  int64_t int_value;       /* INT, and the hy_dtype of DTYPE */
  double float_value;      /* FLOAT */
  hy_string string_value;  /* STRING, EXPRS */
  const int64_t* ints;     /* INTS */
  const double* floats;    /* FLOATS */
  size_t count;            /* of ints or floats */
} hy_graph_attribute;
#define HY_GRAPH_ATTRIBUTE_INIT                                                                    \
  {sizeof(hy_graph_attribute), HY_STRUCT_GRAPH_ATTRIBUTE, NULL, {NULL, 0}, HY_ATTRIBUTE_INT, 0, 0, \
   {NULL, 0}, NULL, NULL, 0}

/* An empty graph. The ops are those of Halyard's Graph IR (docs/ops.md). */
HY_API HY_NODISCARD hy_result hy_graph_create(hy_instance_t* instance, hy_graph_t** out_graph);
/* Any thread; cannot fail. */
HY_API void hy_graph_release(hy_graph_t* graph);
/* Declares a named size with its range, which never exceeds 2^31 - 1 whatever `max` says; from then on dims and
 * attributes of kind EXPRS may name it; `multiple_of` is at least 1. HY_INVALID_ARGUMENT for a name that exists, and a range without values. */
HY_API HY_NODISCARD hy_result hy_graph_symbol(hy_graph_t* graph, hy_string name, int64_t min, int64_t max,
                                              int64_t multiple_of);
/* Adds an input. `dims` is text such as "n, 3, 2*n + 1, 224", "" for a scalar: numbers, declared symbols, +, -, *,
 * parentheses and min, max, mod, floordiv of two. The name is unlike those of all other inputs, constants and nodes.
 * HY_INVALID_ARGUMENT quotes dims that are no sizes or name a symbol that is not declared. */
HY_API HY_NODISCARD hy_result hy_graph_input(hy_graph_t* graph, hy_string name, hy_dtype dtype,
                                             hy_string dims, hy_value* out_value);
/* Adds a constant, row-major and packed. The bytes are copied when `release` is NULL; otherwise they are
 * borrowed until release(release_context) is called, once, from any thread, also when this call fails. */
HY_API HY_NODISCARD hy_result hy_graph_constant(hy_graph_t* graph, hy_string name, hy_dtype dtype,
                                                const int64_t* dims, size_t rank, const void* data,
                                                size_t size_bytes, void (*release)(void* context),
                                                void* release_context, hy_value* out_value);
/* Adds a node. Whether the op takes such operands and attributes is checked by hy_graph_verify and by compiling. An
 * attribute has the kind that docs/ops.md names; INT is taken for FLOAT, INTS for FLOATS or EXPRS, and nothing else.
 * `name` appears in reports and errors and is unlike all others of the graph; empty: one is made. `results` receives
 * result_count values. */
HY_API HY_NODISCARD hy_result hy_graph_op(hy_graph_t* graph, hy_string op, hy_string name,
                                          const hy_value* operands, size_t operand_count,
                                          const hy_graph_attribute* attributes, size_t attribute_count,
                                          hy_value* results, size_t result_count);
/* Makes a value an output, under a name of its own. */
HY_API HY_NODISCARD hy_result hy_graph_output(hy_graph_t* graph, hy_string name, hy_value value);
/* Takes back what the last call that succeeded added to the graph, a symbol, input, constant, node or output; called
 * again, what was added before it. So a node that hy_graph_verify refuses can be replaced. Values that go with it are
 * no values any more, and their numbers and names may be given again; a borrowed constant is released.
 * HY_FAILED_PRECONDITION when the graph is empty. */
HY_API HY_NODISCARD hy_result hy_graph_undo(hy_graph_t* graph);
/* Types and shapes of the whole graph. Opens the compiler library: HY_UNAVAILABLE without it.
 * HY_INVALID_ARGUMENT names the node that is wrong. */
HY_API HY_NODISCARD hy_result hy_graph_verify(hy_graph_t* graph);

/* --- Programs ------------------------------------------------------------------------------------- */

typedef struct hy_symbol_value {
  hy_string name;
  int64_t value;
} hy_symbol_value;

/* What part libraries of a device's vendor (NVIDIA's cuBLASLt and cuDNN, on CUDA devices where they are installed)
 * take in the race of schedules, which needs tuning. A program that uses one also carries kernels for machines
 * without that version of the library. */
typedef int32_t hy_vendor_libraries;
enum {
  HY_VENDOR_LIBRARIES_RACE = 0, /* against generated kernels */
  HY_VENDOR_LIBRARIES_OFF = 1,
  HY_VENDOR_LIBRARIES_ALONE = 2 /* where one can take part no generated kernel does: what the library takes */
};

/* What the f32 tensors of a model are computed in. */
typedef int32_t hy_precision;
enum {
  HY_PRECISION_AS_GIVEN = 0, /* f32 */
  /* Weights and activations of products, convolutions and attention in f16, their sums in f32, softmax and
   * the statistics of normalisations in f32. Inputs and outputs keep their dtype, unless io_precision of
   * hy_compile_desc says otherwise. Relative errors near 2^-11 per layer; values beyond 65504 become infinite. */
  HY_PRECISION_F16 = 1
};

typedef int32_t hy_affinity_kind;
enum {
  HY_AFFINITY_REQUIRE = 0, /* there, or compiling fails */
  HY_AFFINITY_PREFER = 1,  /* there, where the device can and it costs little */
  HY_AFFINITY_FORBID = 2   /* anywhere else */
};
/* Which device runs the nodes whose names match `pattern`: '*' is any text, '?' any character. Names are those of
 * the ONNX file or of hy_graph_op; "op:NAME" matches nodes by their ONNX op type ("op:Conv") or their op of the
 * Graph IR ("op:conv", docs/ops.md), with case. A pattern that matches no node is a warning of the log and a record
 * of the report. `device` is a path such as "cuda:0", one of those that placement may choose. */
typedef struct hy_affinity {
  hy_string pattern;
  hy_string device;
  hy_affinity_kind kind;
} hy_affinity;

/* What one program may take of a device, its weights, activations, inputs, outputs and copies together. */
typedef struct hy_memory_cap {
  hy_string device;
  int64_t size_bytes; /* at least 1 */
} hy_memory_cap;

typedef struct hy_compile_desc {
  uint32_t struct_size;
  hy_struct_type type;
  const void* next;
  /* Exactly one source. */
  hy_string onnx_path;           /* an ONNX file; external data lies in its folder, or beside the
                                  * file that it is a link to */
  const void* onnx_data;         /* ONNX bytes; the library copies them */
  size_t onnx_size_bytes;
  hy_string external_folder;     /* of external data for onnx_data; empty: there is none */
  hy_graph_t* graph;
  /* Placement chooses among these; the CPU joins for ops that none of them supports. None: `auto`,
   * which hy_device_info explains. */
  hy_device_t* const* devices;
  size_t device_count;
  const hy_symbol_value* symbols; /* sizes fixed now, at most 2^31 - 1: a program for exactly these */
  size_t symbol_count;
  hy_policy on_unsupported_op;
  uint32_t disable_tuning;       /* 1: schedules are chosen by the model, nothing is timed */
  uint32_t disable_cache;        /* 1: neither read nor write the cache folder */
  uint32_t fast_reductions;      /* 1: results may depend on the thread count */
  /* May be NULL. Called on the calling thread as passes of the compiler begin and as pieces of the long ones are
   * done. `fraction` of the whole never falls; the last call of a compile that succeeds says 1. */
  void (*progress)(void* context, hy_string phase, double fraction);
  void* progress_context;
  hy_precision precision;
  const hy_affinity* affinities;     /* contradictions and unknown devices are HY_INVALID_ARGUMENT */
  size_t affinity_count;
  const hy_memory_cap* memory_caps;  /* obeyed, or HY_OUT_OF_MEMORY with the shortfall */
  size_t memory_cap_count;
  uint32_t verify_plan; /* 1: a plan over several devices runs in turn with the best one on a single device,
                           on random data, and the faster is kept; takes seconds */
  uint32_t replan;      /* 1: place anew, even where the cache has a program */
  hy_vendor_libraries vendor_libraries;
  /* With progress_context; may be NULL. Asked between passes, candidates and pieces of code, on any thread, also
   * on several at once. Not 0: the call ends soon, with HY_ABORTED. */
  int32_t (*should_stop)(void* context);
  /* HY_PRECISION_F16: f32 inputs and outputs of the model are f16 in the program, whatever `precision` says;
   * others keep their dtype. Values beyond 65504 become infinite. */
  hy_precision io_precision;
  uint32_t no_first_probe; /* 1: devices that nobody measured are not measured shortly before a program is placed over
                              several, as HALYARD_FIRST_PROBE_MS says */
} hy_compile_desc;
#define HY_COMPILE_DESC_INIT                                                                        \
  {sizeof(hy_compile_desc), HY_STRUCT_COMPILE_DESC, NULL, {NULL, 0}, NULL, 0, {NULL, 0}, NULL, NULL, 0, \
   NULL, 0, HY_POLICY_DEFAULT, 0, 0, 0, NULL, NULL, HY_PRECISION_AS_GIVEN, NULL, 0, NULL, 0, 0, 0, 0, NULL, \
   HY_PRECISION_AS_GIVEN, 0}

/* Compiles, or finds the program in the cache. Opens the compiler library only when it compiles:
 * HY_UNAVAILABLE without it. Blocks; no lock is held meanwhile. Any thread. HY_INVALID_ARGUMENT when the
 * model is wrong, HY_UNIMPLEMENTED when an op is not supported and the policy is an error, HY_NOT_FOUND
 * when the file is missing. */
HY_API HY_NODISCARD hy_result hy_program_compile(hy_instance_t* instance, const hy_compile_desc* desc,
                                                 hy_program_t** out_program);

typedef struct hy_program_load_desc {
  uint32_t struct_size;
  hy_struct_type type;
  const void* next;
  /* Exactly one source. A file is mapped and must be replaced by rename, never rewritten. */
  hy_string path;
  const void* data;           /* copied */
  size_t size_bytes;
  hy_device_t* const* devices; /* stand for the program's devices, in its order; none: opened by path */
  size_t device_count;
  uint32_t verify_data;       /* without effect: all is checked unless trust_data says otherwise */
  uint32_t reserved;
  /* 1: the weights are not hashed, so that those of a file are mapped without being read. A flipped bit in them
   * gives wrong results then, and no error. */
  uint64_t trust_data;
} hy_program_load_desc;
#define HY_PROGRAM_LOAD_DESC_INIT \
  {sizeof(hy_program_load_desc), HY_STRUCT_PROGRAM_LOAD_DESC, NULL, {NULL, 0}, NULL, 0, NULL, 0, 0, 0, 0}

/* Loads what hy_program_save wrote; never opens the compiler library. A program file is trusted like a
 * shared library: its hashes find corruption, not malice. Any thread. HY_DATA_LOSS for a corrupted file,
 * HY_INCOMPATIBLE for another format version or a device that lacks what the code needs, HY_UNAVAILABLE for a device
 * that is not there, HY_OUT_OF_MEMORY where a cap that it was compiled with leaves too little. */
HY_API HY_NODISCARD hy_result hy_program_load(hy_instance_t* instance, const hy_program_load_desc* desc,
                                              hy_program_t** out_program);
/* What hy_program_load would say, without making anything. Any thread. */
HY_API HY_NODISCARD hy_result hy_program_check(hy_instance_t* instance, const hy_program_load_desc* desc);
/* Writes the program file beside `path` and renames it; links are followed, and what is there and is no file, such
 * as a pipe, is written through. Any thread. HY_UNAVAILABLE when the system refuses. */
HY_API HY_NODISCARD hy_result hy_program_save(hy_program_t* program, hy_string path);
/* Any thread; cannot fail. */
HY_API void hy_program_release(hy_program_t* program);

typedef int32_t hy_io_kind;
enum { HY_IO_INPUT = 0, HY_IO_OUTPUT = 1 };

typedef struct hy_tensor_info {
  uint32_t struct_size;
  hy_struct_type type;
  const void* next;
  hy_string name;
  hy_dtype dtype;
  uint32_t rank;
  int64_t dims[HY_MAX_RANK];  /* -1 where the size is not fixed */
  hy_string shape;            /* "n, 3, 224, 224": names the symbols */
} hy_tensor_info;
#define HY_TENSOR_INFO_INIT                                                                     \
  {sizeof(hy_tensor_info), HY_STRUCT_TENSOR_INFO, NULL, {NULL, 0}, HY_DTYPE_INVALID, 0, {0}, {NULL, 0}}

/* Describes the inputs or the outputs, in the model's order. Arrays as for hy_enumerate_drivers; texts
 * live as long as the program. Any thread. */
HY_API HY_NODISCARD hy_result hy_program_io(hy_program_t* program, hy_io_kind kind, hy_tensor_info* infos,
                                            size_t* count);

typedef struct hy_symbol_info {
  uint32_t struct_size;
  hy_struct_type type;
  const void* next;
  hy_string name;
  int64_t min;
  int64_t max;
  int64_t multiple_of;
} hy_symbol_info;
#define HY_SYMBOL_INFO_INIT \
  {sizeof(hy_symbol_info), HY_STRUCT_SYMBOL_INFO, NULL, {NULL, 0}, 0, 0, 1}

/* The named sizes of the program that are still open. Arrays as for hy_enumerate_drivers; texts live as
 * long as the program. Any thread. */
HY_API HY_NODISCARD hy_result hy_program_symbols(hy_program_t* program, hy_symbol_info* infos,
                                                 size_t* count);

typedef struct hy_memory_info {
  uint32_t struct_size;
  hy_struct_type type;
  const void* next;
  hy_string device;
  int64_t constant_bytes;    /* weights, shared by all sessions */
  int64_t activation_bytes;  /* per session */
  int64_t io_bytes;          /* of inputs and outputs, unless the caller brings them */
  int64_t staging_bytes;     /* page-locked, per session: of transfers between devices, inputs and outputs */
} hy_memory_info;
#define HY_MEMORY_INFO_INIT \
  {sizeof(hy_memory_info), HY_STRUCT_MEMORY_INFO, NULL, {NULL, 0}, 0, 0, 0, 0}

/* What a run takes on each device, before it runs. Symbols must all be given. Arrays as for
 * hy_enumerate_drivers. Any thread. HY_INVALID_ARGUMENT names the symbol that is missing or out of range. */
HY_API HY_NODISCARD hy_result hy_program_memory(hy_program_t* program, const hy_symbol_value* symbols,
                                                size_t symbol_count, hy_memory_info* infos, size_t* count);

typedef int32_t hy_report_kind;
enum {
  HY_REPORT_ALL = 0,
  HY_REPORT_PLACEMENT = 1, /* which device runs what, and why; every fallback */
  HY_REPORT_FUSION = 2,    /* which nodes run in which dispatch */
  HY_REPORT_SCHEDULE = 3,  /* how each dispatch is scheduled */
  HY_REPORT_MEMORY = 4,
  HY_REPORT_PHASES = 5,    /* what compiling or loading took, also for new sizes since then */
  HY_REPORT_COMMANDS = 6   /* the program itself, in its text form (text only) */
};

/* Explains the program through the writer: text, JSON, or for HY_REPORT_ALL a DOT graph of blocks and
 * dispatches, or one HTML page that refers to nothing outside it. Any thread. HY_UNIMPLEMENTED for a combination that does not exist. */
HY_API HY_NODISCARD hy_result hy_program_report(hy_program_t* program, hy_report_kind kind,
                                                hy_report_format format, hy_writer writer, void* context);

/* What became of one node of the model, or why it does not run on `device`, through the writer, as text or JSON: an
 * object, or an array of them where the name means several nodes. `name` is a node, a value that one makes, a dispatch
 * of the report or an op such as "Conv". `device` is a path such as "cuda:0"; empty: what became of the node. Answers
 * about a device have a `code` that stays (RUNS_THERE, COSTS_MORE, UNSUPPORTED_OP, ...) and a sentence, `text`. Any
 * thread. HY_NOT_FOUND has the names near `name`. */
HY_API HY_NODISCARD hy_result hy_program_explain_node(hy_program_t* program, hy_string name, hy_string device,
                                                      hy_report_format format, hy_writer writer, void* context);

/* --- Buffers -------------------------------------------------------------------------------------- */

/* Memory of a device that the host can map; contents are undefined. Any thread. HY_OUT_OF_MEMORY names
 * what is left. */
HY_API HY_NODISCARD hy_result hy_buffer_create(hy_device_t* device, size_t size_bytes,
                                               hy_buffer_t** out_buffer);
typedef int32_t hy_memory;
enum {
  HY_MEMORY_HOST_VISIBLE = 0, /* the host can map it; over a bus, slow for the device */
  HY_MEMORY_DEVICE = 1        /* fastest for the device; the host may be unable to map it */
};

typedef struct hy_buffer_desc {
  uint32_t struct_size;
  hy_struct_type type;
  const void* next;
  size_t size_bytes;
  hy_memory memory;
} hy_buffer_desc;
#define HY_BUFFER_DESC_INIT {sizeof(hy_buffer_desc), HY_STRUCT_BUFFER_DESC, NULL, 0, HY_MEMORY_HOST_VISIBLE}

/* As hy_buffer_create, in the memory that the descriptor names. Tensors in HY_MEMORY_DEVICE of the device
 * that runs the program are used in place: nothing crosses the bus. Any thread. */
HY_API HY_NODISCARD hy_result hy_buffer_create_from(hy_device_t* device, const hy_buffer_desc* desc,
                                                    hy_buffer_t** out_buffer);
/* Copies host bytes into the buffer, or bytes of the buffer to the host, and waits for the copy; for every
 * kind of memory. The caller orders it against runs by their events. Any thread. HY_OUT_OF_RANGE names the
 * range that leaves the buffer. */
HY_API HY_NODISCARD hy_result hy_buffer_write(hy_buffer_t* buffer, size_t offset, const void* data,
                                              size_t size_bytes);
HY_API HY_NODISCARD hy_result hy_buffer_read(hy_buffer_t* buffer, size_t offset, void* data,
                                             size_t size_bytes);
/* Makes host memory a buffer without a copy; `release` (may be NULL) is called once when the last user
 * of the memory is done, and not when this call fails. Any thread. HY_INCOMPATIBLE when the device
 * cannot use it in place: not aligned to buffer_alignment, or the device has memory of its own. */
HY_API HY_NODISCARD hy_result hy_buffer_import(hy_device_t* device, void* data, size_t size_bytes,
                                               void (*release)(void* context), void* release_context,
                                               hy_buffer_t** out_buffer);
/* The host address of the buffer, the same each time; lives as long as the buffer. The caller orders its
 * accesses against runs by their events. Any thread. HY_INCOMPATIBLE when the host cannot address it. */
HY_API HY_NODISCARD hy_result hy_buffer_map(hy_buffer_t* buffer, void** out_data);
/* Any thread; cannot fail. Runs that use the buffer keep it. */
HY_API void hy_buffer_release(hy_buffer_t* buffer);

/* --- Sessions ------------------------------------------------------------------------------------- */

typedef int32_t hy_new_shapes;
enum {
  HY_NEW_SHAPES_GENERIC = 0, /* run the program for any shape; never compiles */
  HY_NEW_SHAPES_COMPILE = 1, /* compile a program for exactly these sizes at first use, with a record;
                                the 16 used last are kept, each with weights of its own */
  HY_NEW_SHAPES_ERROR = 2,   /* only sizes that have been compiled for run; others fail */
  HY_NEW_SHAPES_COMPILE_LATER = 3 /* run the program for any shape while one for exactly these sizes is
                                     compiled on a thread of the library; later runs take that one */
};

typedef struct hy_session_desc {
  uint32_t struct_size;
  hy_struct_type type;
  const void* next;
  hy_new_shapes on_new_shapes;
  int64_t memory_limit_bytes; /* of activations; 0: none. A run that needs more is HY_OUT_OF_MEMORY. */
  uint32_t time_runs;         /* 1: hy_event_device_time tells what each submitted run took; HY_TIME_COMMANDS */
} hy_session_desc;
/* Of time_runs: also hy_event_command_times. Commands then run one after the other, each by itself, and
 * hy_session_submit returns when all are done: such a run is slower than others. */
#define HY_TIME_COMMANDS 2u
#define HY_SESSION_DESC_INIT \
  {sizeof(hy_session_desc), HY_STRUCT_SESSION_DESC, NULL, HY_NEW_SHAPES_GENERIC, 0, 0}

/* What runs the program; it owns the activations. Any number of sessions share one program's weights.
 * `desc` may be NULL. Any thread. */
HY_API HY_NODISCARD hy_result hy_session_create(hy_program_t* program, const hy_session_desc* desc,
                                                hy_session_t** out_session);
/* Waits for the session's run in flight, and, when it is the last user of the program, for a compile that
 * HY_NEW_SHAPES_COMPILE_LATER started and that is going on. One thread at a time; cannot fail. */
HY_API void hy_session_release(hy_session_t* session);

/* A tensor given to a run: bytes of the host or of a buffer, row-major and packed. */
typedef struct hy_tensor {
  uint32_t struct_size;
  hy_struct_type type;
  const void* next;
  hy_dtype dtype;
  uint32_t rank;
  int64_t dims[HY_MAX_RANK];
  void* data;            /* host memory; never written for inputs */
  size_t size_bytes;     /* of data, or of the range of the buffer */
  hy_buffer_t* buffer;   /* instead of data */
  size_t buffer_offset;  /* a multiple of buffer_alignment */
} hy_tensor;
#define HY_TENSOR_INIT \
  {sizeof(hy_tensor), HY_STRUCT_TENSOR, NULL, HY_DTYPE_INVALID, 0, {0}, NULL, 0, NULL, 0}

/* Runs once and waits. Inputs and outputs stand in the model's order, all of them. Of an input the dtype,
 * rank, dims and bytes are read. An output with neither data nor buffer gets memory of the session: on
 * return data and size_bytes say where, until the session's next run or its end; a tensor that still says so
 * may be given to that run. An output with data or a buffer is written there, if its size_bytes suffice.
 * An input may be an output of the run before. Dtype, rank and
 * dims of outputs are filled in. One thread at a time: HY_BUSY. HY_INVALID_ARGUMENT names the input that
 * does not fit, HY_OUT_OF_RANGE comes from an index inside the model. After a failure the outputs are
 * undefined and the session may be used again, unless the device was lost. */
HY_API HY_NODISCARD hy_result hy_session_run(hy_session_t* session, const hy_tensor* inputs,
                                             size_t input_count, hy_tensor* outputs, size_t output_count);
/* The same without waiting: the outputs may be read when the event is done. Inputs and outputs in host
 * memory must stay until then. When the session's last run is still going, waits for its end first, unless
 * the inputs and outputs of both are in buffers and have equal sizes, and one device runs all: then this run
 * is queued behind it on the device, and fails with it. For runs side by side use several sessions. One
 * thread at a time: HY_BUSY. */
HY_API HY_NODISCARD hy_result hy_session_submit(hy_session_t* session, const hy_tensor* inputs,
                                                size_t input_count, hy_tensor* outputs,
                                                size_t output_count, hy_event_t** out_event);

/* --- Events --------------------------------------------------------------------------------------- */

#define HY_WAIT_FOREVER INT64_MAX

/* Waits until the work is done; 0 only looks. Returns the failure of the work when it failed,
 * HY_DEADLINE_EXCEEDED when the time is over. Any thread. */
HY_API HY_NODISCARD hy_result hy_event_wait(hy_event_t* event, int64_t timeout_ns);
/* HY_OK when the work is done, its failure when it failed (hy_last_error explains), and
 * HY_DEADLINE_EXCEEDED while it goes on. Any thread. */
HY_API HY_NODISCARD hy_result hy_event_status(hy_event_t* event);
/* What the run's commands took by the clocks of the devices, in nanoseconds: from the start of the first to
 * the end of the last, added over the pieces that were submitted by themselves; without transfers between
 * host and device, and without interpreted ops. Any thread. HY_FAILED_PRECONDITION unless the session was
 * created with time_runs; HY_UNIMPLEMENTED when a device has no clock; otherwise as hy_event_status. */
HY_API HY_NODISCARD hy_result hy_event_device_time(hy_event_t* event, int64_t* out_ns);

typedef int32_t hy_timed_kind;
enum {
  HY_TIMED_DISPATCH = 0,
  HY_TIMED_COPY = 1,
  HY_TIMED_FILL = 2,
  HY_TIMED_INTERPRETED = 3, /* an op that no device has code for, on the host */
  HY_TIMED_TRANSFER = 4,    /* between devices */
  HY_TIMED_INPUT = 5,       /* what the run copies of an input before it uses it */
  HY_TIMED_OUTPUT = 6
};
/* What one command or one copy of a run took. */
typedef struct hy_command_time {
  uint32_t struct_size;
  hy_struct_type type;
  const void* next;
  hy_string label;      /* of the fusion group; of INPUT and OUTPUT the tensor */
  hy_string device;     /* whose queue did it */
  hy_timed_kind kind;
  uint32_t queue;
  int64_t start_ns;     /* the host's clock from the start of the run: before the call that submits, */
  int64_t submitted_ns; /* after it, */
  int64_t end_ns;       /* and when the host saw the end */
  int64_t device_ns;    /* by the device's clock, of DISPATCH as one among others, without a launch; -1: not told */
  int64_t bytes;        /* moved; of DISPATCH those it reads and writes, each once; -1: not known */
  int64_t flops;        /* of DISPATCH; a multiply-add is two; -1: not known */
  int64_t live_bytes;   /* of activations that this command or a later one needs, by the plan; -1: not known */
  hy_dtype product;     /* of the factors, when it is a product, a convolution or attention */
} hy_command_time;
#define HY_COMMAND_TIME_INIT                                                                              \
  {sizeof(hy_command_time), HY_STRUCT_COMMAND_TIME, NULL, {NULL, 0}, {NULL, 0}, HY_TIMED_DISPATCH, 0, 0, 0, 0, \
   -1, -1, -1, -1, HY_DTYPE_INVALID}

/* What each command of the run took, in their order. `bytes` and `flops` of a fusion group that is several
 * dispatches stand in each of them, for all of them. Arrays as for hy_enumerate_drivers; texts live as long as the
 * event. Any thread. HY_FAILED_PRECONDITION unless the session was created with HY_TIME_COMMANDS. */
HY_API HY_NODISCARD hy_result hy_event_command_times(hy_event_t* event, hy_command_time* times, size_t* count);
/* Any thread; cannot fail. The work goes on. */
HY_API void hy_event_release(hy_event_t* event);

/* --- Table ---------------------------------------------------------------------------------------- */

/* All functions as pointers, for hosts that open the library themselves. New ones are added at the end. */
typedef struct hy_api {
  uint32_t struct_size;
  hy_struct_type type;
  const void* next;
  uint32_t (*version)(void);
  hy_string (*result_name)(hy_result);
  hy_string (*last_error)(void);
  hy_result (*instance_create)(const hy_instance_desc*, hy_instance_t**);
  void (*instance_release)(hy_instance_t*);
  hy_result (*enumerate_drivers)(hy_instance_t*, hy_driver_info*, size_t*);
  hy_result (*enumerate_devices)(hy_instance_t*, hy_device_info*, size_t*);
  hy_result (*device_open)(hy_instance_t*, hy_string, hy_device_t**);
  void (*device_release)(hy_device_t*);
  hy_result (*device_get_info)(hy_device_t*, hy_device_info*);
  hy_result (*device_report)(hy_device_t*, hy_report_format, hy_writer, void*);
  hy_result (*graph_create)(hy_instance_t*, hy_graph_t**);
  void (*graph_release)(hy_graph_t*);
  hy_result (*graph_symbol)(hy_graph_t*, hy_string, int64_t, int64_t, int64_t);
  hy_result (*graph_input)(hy_graph_t*, hy_string, hy_dtype, hy_string, hy_value*);
  hy_result (*graph_constant)(hy_graph_t*, hy_string, hy_dtype, const int64_t*, size_t, const void*, size_t,
                              void (*)(void*), void*, hy_value*);
  hy_result (*graph_op)(hy_graph_t*, hy_string, hy_string, const hy_value*, size_t,
                        const hy_graph_attribute*, size_t, hy_value*, size_t);
  hy_result (*graph_output)(hy_graph_t*, hy_string, hy_value);
  hy_result (*graph_verify)(hy_graph_t*);
  hy_result (*program_compile)(hy_instance_t*, const hy_compile_desc*, hy_program_t**);
  hy_result (*program_load)(hy_instance_t*, const hy_program_load_desc*, hy_program_t**);
  hy_result (*program_check)(hy_instance_t*, const hy_program_load_desc*);
  hy_result (*program_save)(hy_program_t*, hy_string);
  void (*program_release)(hy_program_t*);
  hy_result (*program_io)(hy_program_t*, hy_io_kind, hy_tensor_info*, size_t*);
  hy_result (*program_symbols)(hy_program_t*, hy_symbol_info*, size_t*);
  hy_result (*program_memory)(hy_program_t*, const hy_symbol_value*, size_t, hy_memory_info*, size_t*);
  hy_result (*program_report)(hy_program_t*, hy_report_kind, hy_report_format, hy_writer, void*);
  hy_result (*buffer_create)(hy_device_t*, size_t, hy_buffer_t**);
  hy_result (*buffer_import)(hy_device_t*, void*, size_t, void (*)(void*), void*, hy_buffer_t**);
  hy_result (*buffer_map)(hy_buffer_t*, void**);
  void (*buffer_release)(hy_buffer_t*);
  hy_result (*session_create)(hy_program_t*, const hy_session_desc*, hy_session_t**);
  void (*session_release)(hy_session_t*);
  hy_result (*session_run)(hy_session_t*, const hy_tensor*, size_t, hy_tensor*, size_t);
  hy_result (*session_submit)(hy_session_t*, const hy_tensor*, size_t, hy_tensor*, size_t, hy_event_t**);
  hy_result (*event_wait)(hy_event_t*, int64_t);
  hy_result (*event_status)(hy_event_t*);
  void (*event_release)(hy_event_t*);
  hy_result (*buffer_create_from)(hy_device_t*, const hy_buffer_desc*, hy_buffer_t**);
  hy_result (*buffer_write)(hy_buffer_t*, size_t, const void*, size_t);
  hy_result (*buffer_read)(hy_buffer_t*, size_t, void*, size_t);
  hy_result (*event_device_time)(hy_event_t*, int64_t*);
  hy_result (*device_properties)(hy_device_t*, hy_string, hy_property*, size_t*);
  hy_result (*device_matrix_shapes)(hy_device_t*, hy_matrix_shape*, size_t*);
  hy_result (*link_get_info)(hy_device_t*, hy_device_t*, hy_link_info*);
  hy_result (*devices_probe)(hy_instance_t*, hy_device_t* const*, size_t, const hy_probe_desc*,
                             hy_report_format, hy_writer, void*);
  hy_result (*event_command_times)(hy_event_t*, hy_command_time*, size_t*);
  hy_result (*graph_undo)(hy_graph_t*);
  hy_result (*program_explain_node)(hy_program_t*, hy_string, hy_string, hy_report_format, hy_writer, void*);
} hy_api;

/* Fills the table, of which the caller sets struct_size, type and next: as many functions as fit, NULL
 * for those that this library does not have. Any thread. HY_INVALID_ARGUMENT for a bad struct. */
HY_API HY_NODISCARD hy_result hy_get_api(hy_api* api);

#ifdef __cplusplus
}
#endif
#endif /* HALYARD_H_ */
