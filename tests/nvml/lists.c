/* Answers with many parts: samples, fields, processes. */
#include <math.h>
#include <string.h>

#include "fake.h"

enum { UTILIZATION_SAMPLES = 1, SAMPLES_KEPT = 120, SAMPLES_A_SECOND = 6 };

/* The utilization of the window that ends at `time_us`; a change of the scenario does not change what was before it. */
static unsigned sampled(int index, double time_us) {
    double middle = time_us / 1e6 - 0.5 / SAMPLES_A_SECOND;
    const World *then = middle < changed_at ? previous_world : world;
    const Value *value = &then->gpus[index].values[VALUE_UTILIZATION];
    if (!value->present) then = world, value = &world->gpus[index].values[VALUE_UTILIZATION];
    return (unsigned)value_at(then, value, middle);
}

static int read_samples(const Call *call, unsigned long long last_us, unsigned *count, Sample *out) {
    unsigned now;
    int code = read_utilization(call->gpu, VALUE_UTILIZATION, &now);
    if (code != SUCCESS) return code;
    if (!out) return *count = SAMPLES_KEPT, SUCCESS;
    long long newest = (long long)floor(seconds_now() * SAMPLES_A_SECOND);
    unsigned written = 0;
    for (long long each = newest - SAMPLES_KEPT + 1; each <= newest && written < *count; each++) {
        double time_us = floor((double)each * 1e6 / SAMPLES_A_SECOND);
        if (time_us <= (double)last_us) continue;
        out[written] = (Sample){.time_us = (unsigned long long)time_us};
        out[written++].value.natural = sampled(call->index, time_us);
    }
    *count = written;
    return written ? SUCCESS : NOT_FOUND;
}

EXPORT int nvmlDeviceGetSamples(void *device, unsigned kind, unsigned long long last_us, int *value_kind,
                                unsigned *count, Sample *out) {
    Call call = begin_device(SYMBOL_nvmlDeviceGetSamples, device);
    if (call.code == SUCCESS && (!count || !value_kind)) call.code = INVALID_ARGUMENT;
    if (call.code == SUCCESS && kind != UTILIZATION_SAMPLES) call.code = NOT_SUPPORTED;
    if (call.code == SUCCESS) {
        *value_kind = KIND_UNSIGNED;
        call.code = read_samples(&call, last_us, count, out);
    }
    return end(&call);
}

typedef struct {
    unsigned field;
    enum value value;
    enum kind kind;
    enum { OF_GPU, OF_ANY_LINKS, OF_ONE_LINK } scope;
} Field;

enum { LINK_COUNT_FIELD = 91 };

static const Field fields[] = {
    {3, VALUE_ECC_CORRECTED_VOLATILE, KIND_UNSIGNED_LONG_LONG, OF_GPU},
    {4, VALUE_ECC_UNCORRECTED_VOLATILE, KIND_UNSIGNED_LONG_LONG, OF_GPU},
    {5, VALUE_ECC_CORRECTED_AGGREGATE, KIND_UNSIGNED_LONG_LONG, OF_GPU},
    {6, VALUE_ECC_UNCORRECTED_AGGREGATE, KIND_UNSIGNED_LONG_LONG, OF_GPU},
    {29, VALUE_RETIRED_SINGLE_BIT, KIND_UNSIGNED, OF_GPU},
    {30, VALUE_RETIRED_DOUBLE_BIT, KIND_UNSIGNED, OF_GPU},
    {31, VALUE_RETIRED_PENDING, KIND_UNSIGNED, OF_GPU},
    {38, VALUE_NVLINK_CRC_FLIT, KIND_UNSIGNED_LONG_LONG, OF_GPU},
    {45, VALUE_NVLINK_CRC_DATA, KIND_UNSIGNED_LONG_LONG, OF_GPU},
    {52, VALUE_NVLINK_REPLAY, KIND_UNSIGNED_LONG_LONG, OF_GPU},
    {59, VALUE_NVLINK_RECOVERY, KIND_UNSIGNED_LONG_LONG, OF_GPU},
    {82, VALUE_MEMORY_TEMPERATURE, KIND_UNSIGNED, OF_GPU},
    {83, VALUE_ENERGY, KIND_UNSIGNED_LONG_LONG, OF_GPU},
    {94, VALUE_PCIE_REPLAYS, KIND_UNSIGNED, OF_GPU},
    {138, VALUE_NVLINK_TX, KIND_UNSIGNED_LONG_LONG, OF_ANY_LINKS},
    {139, VALUE_NVLINK_RX, KIND_UNSIGNED_LONG_LONG, OF_ANY_LINKS},
    {142, VALUE_REMAPPED_CORRECTABLE, KIND_UNSIGNED, OF_GPU},
    {143, VALUE_REMAPPED_UNCORRECTABLE, KIND_UNSIGNED, OF_GPU},
    {144, VALUE_REMAPPED_PENDING, KIND_UNSIGNED, OF_GPU},
    {145, VALUE_REMAPPED_FAILURE, KIND_UNSIGNED, OF_GPU},
    {160, VALUE_NVLINK_ECC, KIND_UNSIGNED_LONG_LONG, OF_GPU},
    {161, VALUE_NVLINK_DL_REPLAY, KIND_UNSIGNED_LONG_LONG, OF_ONE_LINK},
    {162, VALUE_NVLINK_DL_RECOVERY, KIND_UNSIGNED_LONG_LONG, OF_ONE_LINK},
    {163, VALUE_NVLINK_DL_CRC, KIND_UNSIGNED_LONG_LONG, OF_ONE_LINK},
    {186, VALUE_POWER_INSTANT, KIND_UNSIGNED, OF_GPU},
    {197, VALUE_PCIE_TX_BYTES, KIND_UNSIGNED_LONG_LONG, OF_GPU},
    {198, VALUE_PCIE_RX_BYTES, KIND_UNSIGNED_LONG_LONG, OF_GPU},
    {202, VALUE_NVLINK5_TX, KIND_UNSIGNED_LONG_LONG, OF_ONE_LINK},
    {204, VALUE_NVLINK5_RX, KIND_UNSIGNED_LONG_LONG, OF_ONE_LINK},
    {208, VALUE_NVLINK5_RECEIVE, KIND_UNSIGNED_LONG_LONG, OF_ONE_LINK},
    {211, VALUE_NVLINK5_INTEGRITY, KIND_UNSIGNED_LONG_LONG, OF_ONE_LINK},
    {212, VALUE_NVLINK5_DISCARD, KIND_UNSIGNED_LONG_LONG, OF_ONE_LINK},
    {214, VALUE_NVLINK5_RECOVERY_FAILED, KIND_UNSIGNED_LONG_LONG, OF_ONE_LINK},
    {215, VALUE_NVLINK5_RECOVERY, KIND_UNSIGNED_LONG_LONG, OF_ONE_LINK},
    {219, VALUE_NVLINK5_EFFECTIVE, KIND_UNSIGNED_LONG_LONG, OF_ONE_LINK},
    {230, VALUE_RECOVERY_ACTION, KIND_UNSIGNED, OF_GPU},
};

static void put(FieldValue *out, enum kind kind, double number) {
    out->kind = kind;
    if (kind == KIND_UNSIGNED) out->value.natural = (unsigned)number;
    else out->value.natural_long_long = (unsigned long long)number;
}

/* Traffic of NVLink is asked of one link or of all, errors of one; the links share them, the first has the rest. */
static int read_field(const Gpu *gpu, const Field *field, FieldValue *out) {
    double number;
    int code = read_number(gpu, field->value, &number);
    if (code != SUCCESS) return code;
    if (field->scope == OF_ONE_LINK || (field->scope == OF_ANY_LINKS && out->scope != EVERY_LINK)) {
        if (out->scope >= gpu->link_count) return INVALID_ARGUMENT;
        unsigned long long all = (unsigned long long)number, share = all / gpu->link_count;
        number = (double)(out->scope ? share : all - share * (gpu->link_count - 1));
    }
    put(out, field->kind, number);
    return SUCCESS;
}

static int answer_field(const Gpu *gpu, FieldValue *out) {
    if (out->field < MOST_FIELDS && gpu->field_code[out->field]) return gpu->field_code[out->field];
    if (out->field == LINK_COUNT_FIELD && gpu->link_count) return put(out, KIND_UNSIGNED, gpu->link_count), SUCCESS;
    for (unsigned i = 0; i < sizeof fields / sizeof fields[0]; i++)
        if (fields[i].field == out->field) return read_field(gpu, &fields[i], out);
    return NOT_SUPPORTED;
}

EXPORT int nvmlDeviceGetFieldValues(void *device, int count, FieldValue *out) {
    Call call = begin_device(SYMBOL_nvmlDeviceGetFieldValues, device);
    if (call.code == SUCCESS && (!out || count < 1)) call.code = INVALID_ARGUMENT;
    for (int i = 0; call.code == SUCCESS && i < count; i++) {
        out[i].time_us = (long long)(seconds_now() * 1e6);
        out[i].latency_us = 0;
        out[i].code = answer_field(call.gpu, &out[i]);
    }
    return end(&call);
}

/* A scenario's processes hold memory of a whole GPU: its MIG instances have none. */
static int list_processes(const Call *call, int graphics, unsigned *count, ProcessInfo *out) {
    const Gpu *gpu = call->gpu;
    unsigned found = 0, total = call->instance ? 0 : gpu->process_count;
    if (!count) return INVALID_ARGUMENT;
    for (unsigned i = 0; i < total; i++) {
        const Process *process = &gpu->processes[i];
        if (process->graphics != graphics) continue;
        if (out && found < *count) out[found] = (ProcessInfo){process->pid, process->memory, NO_INSTANCE, NO_INSTANCE};
        found++;
    }
    int code = found > *count ? INSUFFICIENT_SIZE : SUCCESS;
    if (code == SUCCESS && found && !out) code = INVALID_ARGUMENT;
    *count = found;
    return code;
}

static int answer_processes(enum symbol symbol, void *device, int graphics, unsigned *count, ProcessInfo *out) {
    Call call = begin_device(symbol, device);
    if (call.code == SUCCESS) call.code = list_processes(&call, graphics, count, out);
    return end(&call);
}

EXPORT int nvmlDeviceGetComputeRunningProcesses_v3(void *device, unsigned *count, ProcessInfo *out) {
    return answer_processes(SYMBOL_nvmlDeviceGetComputeRunningProcesses_v3, device, 0, count, out);
}

EXPORT int nvmlDeviceGetGraphicsRunningProcesses_v3(void *device, unsigned *count, ProcessInfo *out) {
    return answer_processes(SYMBOL_nvmlDeviceGetGraphicsRunningProcesses_v3, device, 1, count, out);
}

/* Nothing is ever sampled of a single process, which the real one says in the same way. */
EXPORT int nvmlDeviceGetProcessUtilization(void *device, void *out, unsigned *count, unsigned long long last_us) {
    (void)out, (void)count, (void)last_us;
    Call call = begin_device(SYMBOL_nvmlDeviceGetProcessUtilization, device);
    if (call.code == SUCCESS) call.code = NOT_FOUND;
    return end(&call);
}
