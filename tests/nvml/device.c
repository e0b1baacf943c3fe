/* What a GPU is, and what it measures one figure at a time. */
#include <stdlib.h>
#include <string.h>

#include "fake.h"

enum { TEMPERATURE_VERSION = 1 << 24 | sizeof(Temperature), MEMORY_VERSION = 2 << 24 | sizeof(MemoryV2) };
enum { MARGIN_VERSION = 1 << 24 | sizeof(MarginTemperature) };
enum { FABRIC_VERSION = 2 << 24 | sizeof(FabricInfo) };
enum { PCIE_COUNTER_US = 20000 }; /* the real one compares a counter with itself after this time */

static int answer_unsigned(enum symbol symbol, void *device, enum value which, unsigned *out) {
    Call call = begin_device(symbol, device);
    if (call.code == SUCCESS) call.code = read_unsigned(call.gpu, which, out);
    return end(&call);
}

static int answer_long(enum symbol symbol, void *device, enum value which, unsigned long long *out) {
    Call call = begin_device(symbol, device);
    if (call.code == SUCCESS) call.code = read_long(call.gpu, which, out);
    return end(&call);
}

#define UNSIGNED(function, which) \
    EXPORT int function(void *device, unsigned *out) { \
        return answer_unsigned(SYMBOL_##function, device, VALUE_##which, out); \
    }

#define LONG(function, which) \
    EXPORT int function(void *device, unsigned long long *out) { \
        return answer_long(SYMBOL_##function, device, VALUE_##which, out); \
    }

UNSIGNED(nvmlDeviceGetPowerUsage, POWER)
UNSIGNED(nvmlDeviceGetEnforcedPowerLimit, POWER_LIMIT)
UNSIGNED(nvmlDeviceGetPowerManagementLimit, POWER_MANAGEMENT_LIMIT)
UNSIGNED(nvmlDeviceGetPowerManagementDefaultLimit, POWER_DEFAULT_LIMIT)
UNSIGNED(nvmlDeviceGetFanSpeed, FAN)
UNSIGNED(nvmlDeviceGetCurrPcieLinkWidth, PCIE_WIDTH)
UNSIGNED(nvmlDeviceGetCurrPcieLinkGeneration, PCIE_GENERATION)
UNSIGNED(nvmlDeviceGetMaxPcieLinkWidth, PCIE_WIDTH_MAX)
UNSIGNED(nvmlDeviceGetMaxPcieLinkGeneration, PCIE_GENERATION_MAX)
UNSIGNED(nvmlDeviceGetPersistenceMode, PERSISTENCE)
UNSIGNED(nvmlDeviceGetComputeMode, COMPUTE_MODE)
UNSIGNED(nvmlDeviceGetDisplayActive, DISPLAY_ACTIVE)
UNSIGNED(nvmlDeviceGetDisplayMode, DISPLAY_MODE)
UNSIGNED(nvmlDeviceGetNumaNodeId, NUMA_NODE)
LONG(nvmlDeviceGetTotalEnergyConsumption, ENERGY)
LONG(nvmlDeviceGetCurrentClocksEventReasons, CLOCK_EVENTS)
LONG(nvmlDeviceGetSupportedEventTypes, EVENT_TYPES)

EXPORT int nvmlDeviceGetIndex(void *device, unsigned *out) {
    Call call = begin_device(SYMBOL_nvmlDeviceGetIndex, device);
    if (call.code == SUCCESS && !out) call.code = INVALID_ARGUMENT;
    if (call.code == SUCCESS) *out = (unsigned)call.index;
    return end(&call);
}

EXPORT int nvmlDeviceGetUUID(void *device, char *out, unsigned length) {
    Call call = begin_device(SYMBOL_nvmlDeviceGetUUID, device);
    if (call.code == SUCCESS) call.code = copy_text(out, length, call.instance ? call.instance->uuid : call.gpu->uuid);
    return end(&call);
}

EXPORT int nvmlDeviceGetName(void *device, char *out, unsigned length) {
    Call call = begin_device(SYMBOL_nvmlDeviceGetName, device);
    const char *name = call.instance ? call.instance->name : call.code == SUCCESS ? call.gpu->name : "";
    if (call.code == SUCCESS) call.code = name[0] ? copy_text(out, length, name) : NOT_SUPPORTED;
    return end(&call);
}

EXPORT int nvmlDeviceGetPciInfo_v3(void *device, PciInfo *out) {
    Call call = begin_device(SYMBOL_nvmlDeviceGetPciInfo_v3, device);
    if (call.code == SUCCESS && !out) call.code = INVALID_ARGUMENT;
    if (call.code == SUCCESS) fill_pci_info(call.gpu->bus_id, call.gpu, out);
    return end(&call);
}

EXPORT int nvmlDeviceGetCudaComputeCapability(void *device, int *major, int *minor) {
    Call call = begin_device(SYMBOL_nvmlDeviceGetCudaComputeCapability, device);
    if (call.code == SUCCESS && (!major || !minor)) call.code = INVALID_ARGUMENT;
    if (call.code == SUCCESS && sscanf(call.gpu->capability, "%d.%d", major, minor) != 2) call.code = NOT_SUPPORTED;
    return end(&call);
}

static int read_memory(const Call *call, MemoryV2 *out) {
    const Gpu *gpu = call->gpu;
    if (call->instance) {
        const Instance *own = call->instance;
        *out = (MemoryV2){.total = own->total, .used = own->used, .free = own->total - own->used};
        return SUCCESS;
    }
    int code = read_long(gpu, VALUE_MEMORY_TOTAL, &out->total);
    if (code == SUCCESS) code = read_long(gpu, VALUE_MEMORY_USED, &out->used);
    if (code != SUCCESS) return code;
    if (read_long(gpu, VALUE_MEMORY_RESERVED, &out->reserved) != SUCCESS) out->reserved = 0;
    unsigned long long taken = out->used + out->reserved;
    out->free = taken < out->total ? out->total - taken : 0;
    return SUCCESS;
}

EXPORT int nvmlDeviceGetMemoryInfo(void *device, Memory *out) {
    MemoryV2 memory;
    Call call = begin_device(SYMBOL_nvmlDeviceGetMemoryInfo, device);
    if (call.code == SUCCESS) call.code = out ? read_memory(&call, &memory) : (int)INVALID_ARGUMENT;
    if (call.code == SUCCESS) *out = (Memory){memory.total, memory.free, memory.used + memory.reserved};
    return end(&call);
}

EXPORT int nvmlDeviceGetMemoryInfo_v2(void *device, MemoryV2 *out) {
    MemoryV2 memory;
    Call call = begin_device(SYMBOL_nvmlDeviceGetMemoryInfo_v2, device);
    if (call.code == SUCCESS && !out) call.code = INVALID_ARGUMENT;
    if (call.code == SUCCESS && out->version != MEMORY_VERSION) call.code = ARGUMENT_VERSION_MISMATCH;
    if (call.code == SUCCESS) call.code = read_memory(&call, &memory);
    if (call.code == SUCCESS) *out = (MemoryV2){MEMORY_VERSION, memory.total, memory.reserved, memory.free, memory.used};
    return end(&call);
}

/* Under MIG no utilization is known: each instance has its own. */
int read_utilization(const Gpu *gpu, enum value which, unsigned *out) {
    double mig = 0;
    read_number(gpu, VALUE_MIG, &mig);
    return mig > 0 ? (int)NOT_SUPPORTED : read_unsigned(gpu, which, out);
}

EXPORT int nvmlDeviceGetUtilizationRates(void *device, Utilization *out) {
    Call call = begin_device(SYMBOL_nvmlDeviceGetUtilizationRates, device);
    if (call.code == SUCCESS) call.code = read_utilization(call.gpu, VALUE_UTILIZATION, out ? &out->gpu : NULL);
    if (call.code == SUCCESS && read_unsigned(call.gpu, VALUE_MEMORY_ACTIVITY, &out->memory) != SUCCESS) out->memory = 0;
    return end(&call);
}

static int answer_codec(enum symbol symbol, void *device, enum value which, unsigned *out, unsigned *period_us) {
    Call call = begin_device(symbol, device);
    if (call.code == SUCCESS && !period_us) call.code = INVALID_ARGUMENT;
    if (call.code == SUCCESS) call.code = read_utilization(call.gpu, which, out);
    if (call.code == SUCCESS) *period_us = 1000000 / 6;
    return end(&call);
}

EXPORT int nvmlDeviceGetEncoderUtilization(void *device, unsigned *out, unsigned *period_us) {
    return answer_codec(SYMBOL_nvmlDeviceGetEncoderUtilization, device, VALUE_ENCODER, out, period_us);
}

EXPORT int nvmlDeviceGetDecoderUtilization(void *device, unsigned *out, unsigned *period_us) {
    return answer_codec(SYMBOL_nvmlDeviceGetDecoderUtilization, device, VALUE_DECODER, out, period_us);
}

EXPORT int nvmlDeviceGetTemperature(void *device, int sensor, unsigned *out) {
    Call call = begin_device(SYMBOL_nvmlDeviceGetTemperature, device);
    if (call.code == SUCCESS && sensor != 0) call.code = INVALID_ARGUMENT;
    if (call.code == SUCCESS) call.code = read_unsigned(call.gpu, VALUE_TEMPERATURE, out);
    return end(&call);
}

EXPORT int nvmlDeviceGetTemperatureV(void *device, Temperature *out) {
    unsigned celsius = 0;
    Call call = begin_device(SYMBOL_nvmlDeviceGetTemperatureV, device);
    if (call.code == SUCCESS && (!out || out->sensor != 0)) call.code = INVALID_ARGUMENT;
    if (call.code == SUCCESS && out->version != TEMPERATURE_VERSION) call.code = ARGUMENT_VERSION_MISMATCH;
    if (call.code == SUCCESS) call.code = read_unsigned(call.gpu, VALUE_TEMPERATURE, &celsius);
    if (call.code == SUCCESS) out->celsius = (int)celsius;
    return end(&call);
}

EXPORT int nvmlDeviceGetTemperatureThreshold(void *device, int kind, unsigned *out) {
    Call call = begin_device(SYMBOL_nvmlDeviceGetTemperatureThreshold, device);
    if (call.code == SUCCESS) call.code = kind != 1 ? (int)NOT_SUPPORTED : read_unsigned(call.gpu, VALUE_TEMPERATURE_SLOWDOWN, out);
    return end(&call);
}

EXPORT int nvmlDeviceGetMarginTemperature(void *device, MarginTemperature *out) {
    unsigned celsius = 0;
    Call call = begin_device(SYMBOL_nvmlDeviceGetMarginTemperature, device);
    if (call.code == SUCCESS && (!out || out->version != MARGIN_VERSION)) call.code = ARGUMENT_VERSION_MISMATCH;
    if (call.code == SUCCESS) call.code = read_unsigned(call.gpu, VALUE_TEMPERATURE_MARGIN, &celsius);
    if (call.code == SUCCESS) out->celsius = (int)celsius;
    return end(&call);
}

static int answer_clock(enum symbol symbol, void *device, enum value first, unsigned kind, unsigned *out) {
    Call call = begin_device(symbol, device);
    if (call.code == SUCCESS) call.code = kind > 3 ? (int)INVALID_ARGUMENT : read_unsigned(call.gpu, first + kind, out);
    return end(&call);
}

EXPORT int nvmlDeviceGetClockInfo(void *device, unsigned kind, unsigned *out) {
    return answer_clock(SYMBOL_nvmlDeviceGetClockInfo, device, VALUE_CLOCK_GRAPHICS, kind, out);
}

EXPORT int nvmlDeviceGetMaxClockInfo(void *device, unsigned kind, unsigned *out) {
    return answer_clock(SYMBOL_nvmlDeviceGetMaxClockInfo, device, VALUE_CLOCK_MAX_GRAPHICS, kind, out);
}

EXPORT int nvmlDeviceGetPcieThroughput(void *device, unsigned counter, unsigned *out) {
    Call call = begin_blocking(SYMBOL_nvmlDeviceGetPcieThroughput, device, PCIE_COUNTER_US);
    if (call.code == SUCCESS && counter > 1) call.code = INVALID_ARGUMENT;
    if (call.code == SUCCESS) call.code = read_unsigned(call.gpu, VALUE_PCIE_TX_RATE + counter, out);
    return end(&call);
}

EXPORT int nvmlDeviceGetMigMode(void *device, unsigned *current, unsigned *pending) {
    Call call = begin_device(SYMBOL_nvmlDeviceGetMigMode, device);
    if (call.code == SUCCESS && !pending) call.code = INVALID_ARGUMENT;
    if (call.code == SUCCESS) call.code = read_unsigned(call.gpu, VALUE_MIG, current);
    if (call.code == SUCCESS) *pending = *current;
    return end(&call);
}

EXPORT int nvmlDeviceGetGpuFabricInfoV(void *device, FabricInfo *out) {
    unsigned state = 0, status = 0, health = 0;
    Call call = begin_device(SYMBOL_nvmlDeviceGetGpuFabricInfoV, device);
    if (call.code == SUCCESS && !out) call.code = INVALID_ARGUMENT;
    if (call.code == SUCCESS && out->version != FABRIC_VERSION) call.code = ARGUMENT_VERSION_MISMATCH;
    if (call.code == SUCCESS) call.code = read_unsigned(call.gpu, VALUE_FABRIC_STATE, &state);
    if (call.code == SUCCESS) {
        read_unsigned(call.gpu, VALUE_FABRIC_STATUS, &status);
        read_unsigned(call.gpu, VALUE_FABRIC_HEALTH, &health);
        *out = (FabricInfo){.version = FABRIC_VERSION, .status = (int)status, .state = (unsigned char)state};
        out->health = health;
    }
    return end(&call);
}

static int mig_is_on(const Gpu *gpu) {
    double mig = 0;
    return read_number(gpu, VALUE_MIG, &mig) == SUCCESS && mig > 0;
}

EXPORT int nvmlDeviceGetMaxMigDeviceCount(void *device, unsigned *out) {
    Call call = begin_device(SYMBOL_nvmlDeviceGetMaxMigDeviceCount, device);
    if (call.code == SUCCESS && !out) call.code = INVALID_ARGUMENT;
    if (call.code == SUCCESS) *out = mig_is_on(call.gpu) ? MOST_INSTANCES : 0;
    return end(&call);
}

EXPORT int nvmlDeviceGetMigDeviceHandleByIndex(void *device, unsigned number, void **out) {
    Call call = begin_device(SYMBOL_nvmlDeviceGetMigDeviceHandleByIndex, device);
    if (call.code == SUCCESS && (!out || number >= MOST_INSTANCES)) call.code = INVALID_ARGUMENT;
    if (call.code == SUCCESS && !mig_is_on(call.gpu)) call.code = NOT_SUPPORTED;
    if (call.code == SUCCESS && !call.gpu->instances[number].uuid[0]) call.code = NOT_FOUND;
    if (call.code == SUCCESS) *out = &devices[call.index].instances[number];
    return end(&call);
}

EXPORT int nvmlDeviceGetRemappedRows(void *device, unsigned *corrected, unsigned *uncorrected, unsigned *pending,
                                     unsigned *failed) {
    Call call = begin_device(SYMBOL_nvmlDeviceGetRemappedRows, device);
    if (call.code == SUCCESS) call.code = read_unsigned(call.gpu, VALUE_REMAPPED_CORRECTABLE, corrected);
    if (call.code == SUCCESS) call.code = read_unsigned(call.gpu, VALUE_REMAPPED_UNCORRECTABLE, uncorrected);
    if (call.code == SUCCESS) call.code = read_unsigned(call.gpu, VALUE_REMAPPED_PENDING, pending);
    if (call.code == SUCCESS) call.code = read_unsigned(call.gpu, VALUE_REMAPPED_FAILURE, failed);
    return end(&call);
}
