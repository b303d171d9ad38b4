#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Records what libcuda and NVML answer about a GPU, for the stand-in to repeat (recordings/).

usage: record_answers.py [ORDINAL] > recordings/NAME.txt. One line per call: the function with its arguments, "=",
the answer. A call that fails leaves no line. Serial numbers are not asked for.
"""
import ctypes
import sys

ATTRIBUTES = range(1, 150)
MAX_LINKS = 18


def main():
    ordinal = int(sys.argv[1]) if len(sys.argv) > 1 else 0
    cuda = ctypes.CDLL("libcuda.so.1")
    number, bytes_, free = ctypes.c_int(), ctypes.c_size_t(), ctypes.c_size_t()
    text = ctypes.create_string_buffer(256)
    assert cuda.cuInit(0) == 0, "cuInit fails"

    def line(key, value):
        print(f"{key} = {value}")

    if cuda.cuDriverGetVersion(ctypes.byref(number)) == 0:
        line("cuDriverGetVersion", number.value)
    if cuda.cuDeviceGetName(text, 256, ordinal) == 0:
        line("cuDeviceGetName", text.value.decode())
    uuid = (ctypes.c_ubyte * 16)()
    if cuda.cuDeviceGetUuid_v2(ctypes.byref(uuid), ordinal) == 0:
        line("cuDeviceGetUuid_v2", bytes(uuid).hex())
    address = ctypes.create_string_buffer(64)
    assert cuda.cuDeviceGetPCIBusId(address, 64, ordinal) == 0
    line("cuDeviceGetPCIBusId", address.value.decode())
    if cuda.cuDeviceTotalMem_v2(ctypes.byref(bytes_), ordinal) == 0:
        line("cuDeviceTotalMem_v2", bytes_.value)
    for attribute in ATTRIBUTES:
        if cuda.cuDeviceGetAttribute(ctypes.byref(number), attribute, ordinal) == 0:
            line(f"cuDeviceGetAttribute {attribute}", number.value)
    context = ctypes.c_void_p()
    if cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), ordinal) == 0:
        cuda.cuCtxPushCurrent_v2(context)
        if cuda.cuMemGetInfo_v2(ctypes.byref(free), ctypes.byref(bytes_)) == 0:
            line("cuMemGetInfo_v2", f"{free.value} {bytes_.value}")
        least, greatest = ctypes.c_int(), ctypes.c_int()
        if cuda.cuCtxGetStreamPriorityRange(ctypes.byref(least), ctypes.byref(greatest)) == 0:
            line("cuCtxGetStreamPriorityRange", f"{least.value - greatest.value}")

    try:
        nvml = ctypes.CDLL("libnvidia-ml.so.1")
    except OSError:
        return
    if nvml.nvmlInit_v2() != 0:
        return
    device = ctypes.c_void_p()
    if nvml.nvmlDeviceGetHandleByPciBusId_v2(address.value, ctypes.byref(device)) != 0:
        return
    value, other, large = ctypes.c_uint(), ctypes.c_uint(), ctypes.c_ulonglong()

    def ask(name, *arguments):
        function = getattr(nvml, name, None)
        return function is not None and function(device, *arguments) == 0

    for name in ("nvmlSystemGetNVMLVersion", "nvmlSystemGetDriverVersion"):
        if getattr(nvml, name)(text, 128) == 0:
            line(name, text.value.decode())
    if ask("nvmlDeviceGetVbiosVersion", text, 128):
        line("nvmlDeviceGetVbiosVersion", text.value.decode())
    for name in ("nvmlDeviceGetClockInfo", "nvmlDeviceGetMaxClockInfo"):
        for kind in range(3):
            if ask(name, kind, ctypes.byref(value)):
                line(f"{name} {kind}", value.value)
    if ask("nvmlDeviceGetTemperature", 0, ctypes.byref(value)):
        line("nvmlDeviceGetTemperature 0", value.value)
    if ask("nvmlDeviceGetTemperatureThreshold", 1, ctypes.byref(value)):
        line("nvmlDeviceGetTemperatureThreshold 1", value.value)
    for name in ("nvmlDeviceGetPerformanceState", "nvmlDeviceGetPowerUsage", "nvmlDeviceGetEnforcedPowerLimit",
                 "nvmlDeviceGetCurrPcieLinkGeneration", "nvmlDeviceGetCurrPcieLinkWidth",
                 "nvmlDeviceGetMaxPcieLinkGeneration", "nvmlDeviceGetMaxPcieLinkWidth", "nvmlDeviceGetComputeMode",
                 "nvmlDeviceGetPcieReplayCounter", "nvmlDeviceGetDisplayActive", "nvmlDeviceGetPersistenceMode", "nvmlDeviceGetVirtualizationMode"):
        if ask(name, ctypes.byref(value)):
            line(name, value.value)
    for name in ("nvmlDeviceGetCurrentClocksThrottleReasons", "nvmlDeviceGetTotalEnergyConsumption"):
        if ask(name, ctypes.byref(large)):
            line(name, large.value)
    rates = (ctypes.c_uint * 2)()
    if ask("nvmlDeviceGetUtilizationRates", ctypes.byref(rates)):
        line("nvmlDeviceGetUtilizationRates", f"{rates[0]} {rates[1]}")
    memory = (ctypes.c_ulonglong * 5)()
    memory[0] = 40 | 2 << 24
    if ask("nvmlDeviceGetMemoryInfo_v2", ctypes.byref(memory)):
        line("nvmlDeviceGetMemoryInfo_v2", " ".join(str(memory[i]) for i in range(1, 5)))
    window = (ctypes.c_ulonglong * 3)()
    if ask("nvmlDeviceGetBAR1MemoryInfo", ctypes.byref(window)):
        line("nvmlDeviceGetBAR1MemoryInfo", " ".join(str(v) for v in window))
    if ask("nvmlDeviceGetMigMode", ctypes.byref(value), ctypes.byref(other)):
        line("nvmlDeviceGetMigMode", f"{value.value} {other.value}")
    if ask("nvmlDeviceGetMaxMigDeviceCount", ctypes.byref(value)):
        line("nvmlDeviceGetMaxMigDeviceCount", value.value)
        for index in range(value.value):
            instance = ctypes.c_void_p()
            if ask("nvmlDeviceGetMigDeviceHandleByIndex", index, ctypes.byref(instance)) and \
                    nvml.nvmlDeviceGetName(instance, text, 128) == 0:
                line(f"nvmlDeviceGetMigDeviceHandleByIndex {index}", text.value.decode())
    for kind in range(2):  # corrected, uncorrected; since the driver was loaded
        if ask("nvmlDeviceGetTotalEccErrors", kind, 0, ctypes.byref(large)):
            line(f"nvmlDeviceGetTotalEccErrors {kind}", large.value)
        value.value = 0
        if getattr(nvml, "nvmlDeviceGetRetiredPages")(device, kind, ctypes.byref(value), None) in (0, 7):
            line(f"nvmlDeviceGetRetiredPages {kind}", value.value)
    rows = [ctypes.c_uint() for _ in range(4)]
    if ask("nvmlDeviceGetRemappedRows", *map(ctypes.byref, rows)):
        line("nvmlDeviceGetRemappedRows", " ".join(str(row.value) for row in rows))
    events = ctypes.c_void_p()
    if nvml.nvmlEventSetCreate(ctypes.byref(events)) == 0:
        if ask("nvmlDeviceRegisterEvents", ctypes.c_ulonglong(8), events):
            line("nvmlDeviceRegisterEvents 8", 0)
        nvml.nvmlEventSetFree(events)
    for link in range(MAX_LINKS):
        for kind in range(5):
            if ask("nvmlDeviceGetNvLinkErrorCounter", link, kind, ctypes.byref(large)):
                line(f"nvmlDeviceGetNvLinkErrorCounter {link} {kind}", large.value)
        for name in ("nvmlDeviceGetNvLinkState", "nvmlDeviceGetNvLinkVersion"):
            if ask(name, link, ctypes.byref(value)):
                line(f"{name} {link}", value.value)
    for name in ("nvmlDeviceGetComputeRunningProcesses_v3", "nvmlDeviceGetMPSComputeRunningProcesses_v3"):
        value.value = 0
        function = getattr(nvml, name, None)
        if function is not None and function(device, ctypes.byref(value), None) in (0, 7):
            line(name, value.value)


if __name__ == "__main__":
    main()
