/* Sessions, versions, and the way from an index, a UUID or a PCI bus id to a GPU. */
#include <string.h>
#include <strings.h>

#include "fake.h"

static int start(enum symbol symbol) {
    Call call = begin_first(symbol);
    if (call.code == SUCCESS) call.code = open_session();
    return end(&call);
}

EXPORT int nvmlInit_v2(void) { return start(SYMBOL_nvmlInit_v2); }

EXPORT int nvmlInitWithFlags(unsigned flags) {
    (void)flags;
    return start(SYMBOL_nvmlInitWithFlags);
}

EXPORT int nvmlShutdown(void) {
    Call call = begin_first(SYMBOL_nvmlShutdown);
    if (call.code == SUCCESS) call.code = close_session();
    return end(&call);
}

EXPORT const char *nvmlErrorString(int code) {
    switch (code) {
    case SUCCESS: return "Success";
    case UNINITIALIZED: return "Uninitialized";
    case INVALID_ARGUMENT: return "Invalid Argument";
    case NOT_SUPPORTED: return "Not Supported";
    case NOT_FOUND: return "Not Found";
    case INSUFFICIENT_SIZE: return "Insufficient Size";
    case DRIVER_NOT_LOADED: return "Driver Not Loaded";
    case TIMED_OUT: return "Timeout";
    case GPU_IS_LOST: return "GPU is lost";
    case VERSION_MISMATCH: return "Driver/library version mismatch";
    default: return "Unknown Error";
    }
}

static int system_text(enum symbol symbol, char *out, unsigned length) {
    Call call = begin_system(symbol);
    const char *text = symbol == SYMBOL_nvmlSystemGetNVMLVersion ? world->nvml_version : world->driver_version;
    if (call.code == SUCCESS) call.code = text[0] ? copy_text(out, length, text) : NOT_SUPPORTED;
    return end(&call);
}

EXPORT int nvmlSystemGetDriverVersion(char *out, unsigned length) {
    return system_text(SYMBOL_nvmlSystemGetDriverVersion, out, length);
}

EXPORT int nvmlSystemGetNVMLVersion(char *out, unsigned length) {
    return system_text(SYMBOL_nvmlSystemGetNVMLVersion, out, length);
}

static int cuda_version(enum symbol symbol, int *out) {
    Call call = begin_first(symbol); /* the real one answers without a session too */
    if (call.code == SUCCESS && !out) call.code = INVALID_ARGUMENT;
    if (call.code == SUCCESS) *out = world->cuda_version;
    return end(&call);
}

EXPORT int nvmlSystemGetCudaDriverVersion_v2(int *out) {
    return cuda_version(SYMBOL_nvmlSystemGetCudaDriverVersion_v2, out);
}

EXPORT int nvmlSystemGetCudaDriverVersion(int *out) { return cuda_version(SYMBOL_nvmlSystemGetCudaDriverVersion, out); }

static int process_name(unsigned pid, char *out, unsigned length) {
    if (!out || !length) return INVALID_ARGUMENT;
    for (unsigned i = 0; i < world->gpu_count; i++)
        for (unsigned j = 0; j < world->gpus[i].process_count; j++)
            if (world->gpus[i].processes[j].pid == pid) {
                snprintf(out, length, "%s", world->gpus[i].processes[j].name); /* cut off where it is too long */
                return SUCCESS;
            }
    return NOT_FOUND;
}

EXPORT int nvmlSystemGetProcessName(unsigned pid, char *out, unsigned length) {
    Call call = begin_system(SYMBOL_nvmlSystemGetProcessName);
    if (call.code == SUCCESS) call.code = process_name(pid, out, length);
    return end(&call);
}

EXPORT int nvmlDeviceGetCount_v2(unsigned *out) {
    Call call = begin_system(SYMBOL_nvmlDeviceGetCount_v2);
    if (call.code == SUCCESS && !out) call.code = INVALID_ARGUMENT;
    if (call.code == SUCCESS) *out = world->gpu_count;
    return end(&call);
}

/* Gives out the GPU at `index`, -1: there is none. The lost one has a code, but no handle. */
static int hand_out(Call *call, int index, int none, void **out) {
    if (call->code != SUCCESS) return end(call);
    if (!out) call->code = INVALID_ARGUMENT;
    else if (index < 0) call->code = none;
    else {
        call->index = index;
        call->code = device_code(index);
        if (call->code == SUCCESS) call->code = world->gpus[index].code[call->symbol];
        if (call->code == SUCCESS) *out = &devices[index];
    }
    return end(call);
}

EXPORT int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **out) {
    Call call = begin_system(SYMBOL_nvmlDeviceGetHandleByIndex_v2);
    return hand_out(&call, index < world->gpu_count ? (int)index : -1, INVALID_ARGUMENT, out);
}

EXPORT int nvmlDeviceGetHandleByUUID(const char *uuid, void **out) {
    Call call = begin_system(SYMBOL_nvmlDeviceGetHandleByUUID);
    int index = -1;
    for (unsigned i = 0; uuid && i < world->gpu_count; i++)
        if (!strcasecmp(world->gpus[i].uuid, uuid)) index = (int)i;
    return hand_out(&call, index, uuid ? NOT_FOUND : INVALID_ARGUMENT, out);
}

EXPORT int nvmlDeviceGetHandleByPciBusId_v2(const char *bus_id, void **out) {
    Call call = begin_system(SYMBOL_nvmlDeviceGetHandleByPciBusId_v2);
    unsigned wanted[4], part[4];
    int index = -1, understood = bus_id && parse_bus_id(bus_id, wanted);
    for (unsigned i = 0; understood && i < world->gpu_count; i++)
        if (parse_bus_id(world->gpus[i].bus_id, part) && !memcmp(part, wanted, sizeof part)) index = (int)i;
    return hand_out(&call, index, understood ? NOT_FOUND : INVALID_ARGUMENT, out);
}
