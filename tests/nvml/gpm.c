/* GPM: what the parts of a GPU did between two samples, of Hopper and newer cards. */
#include <stdlib.h>

#include "fake.h"

enum { MOMENTS = 200, LEAST_US = 100000 }; /* nvml.h asks for more than 100 ms between two samples */

typedef struct {
    int taken, index, instance;
    long long at_us;
    double at;
} TakenSample;

static const struct {
    unsigned id;
    enum value value;
} metrics[] = {
    {2, VALUE_GPM_SM},       {3, VALUE_GPM_OCCUPANCY}, {5, VALUE_GPM_TENSOR},     {10, VALUE_GPM_DRAM},
    {20, VALUE_GPM_PCIE_TX}, {21, VALUE_GPM_PCIE_RX},  {60, VALUE_GPM_NVLINK_RX}, {61, VALUE_GPM_NVLINK_TX},
};

static int is_supported(const Gpu *gpu) {
    double sm = 0;
    return read_number(gpu, VALUE_GPM_SM, &sm) == SUCCESS;
}

static int mig_is_on(const Gpu *gpu) {
    double mig = 0;
    return read_number(gpu, VALUE_MIG, &mig) == SUCCESS && mig > 0;
}

EXPORT int nvmlGpmQueryDeviceSupport(void *device, GpmSupport *out) {
    Call call = begin_device(SYMBOL_nvmlGpmQueryDeviceSupport, device);
    if (call.code == SUCCESS && !out) call.code = INVALID_ARGUMENT;
    if (call.code == SUCCESS && out->version != 1) call.code = ARGUMENT_VERSION_MISMATCH;
    if (call.code == SUCCESS) out->supported = (unsigned)is_supported(call.gpu);
    return end(&call);
}

EXPORT int nvmlGpmSampleAlloc(void **out) {
    Call call = begin_system(SYMBOL_nvmlGpmSampleAlloc);
    if (call.code == SUCCESS && !out) call.code = INVALID_ARGUMENT;
    if (call.code == SUCCESS) *out = calloc(1, sizeof(TakenSample));
    return end(&call);
}

EXPORT int nvmlGpmSampleFree(void *sample) {
    Call call = begin_system(SYMBOL_nvmlGpmSampleFree);
    if (call.code == SUCCESS && !sample) call.code = INVALID_ARGUMENT;
    if (call.code == SUCCESS) free(sample);
    return end(&call);
}

static int take(const Call *call, int instance, TakenSample *out) {
    if (!out) return INVALID_ARGUMENT;
    if (!is_supported(call->gpu) || mig_is_on(call->gpu) != (instance >= 0)) return NOT_SUPPORTED;
    if (instance >= 0 && !call->gpu->instances[instance].uuid[0]) return NOT_FOUND;
    *out = (TakenSample){1, call->index, instance, monotonic_us(), seconds_now()};
    return SUCCESS;
}

EXPORT int nvmlGpmSampleGet(void *device, void *sample) {
    Call call = begin_device(SYMBOL_nvmlGpmSampleGet, device);
    if (call.code == SUCCESS) call.code = take(&call, -1, sample);
    return end(&call);
}

EXPORT int nvmlGpmMigSampleGet(void *device, unsigned instance, void *sample) {
    Call call = begin_device(SYMBOL_nvmlGpmMigSampleGet, device);
    if (call.code == SUCCESS && (instance < 1 || instance > MOST_INSTANCES)) call.code = INVALID_ARGUMENT;
    if (call.code == SUCCESS) call.code = take(&call, (int)instance - 1, sample);
    return end(&call);
}

/* The instance's number, from 1: no index of anything. */
EXPORT int nvmlDeviceGetGpuInstanceId(void *device, unsigned *out) {
    Call call = begin_device(SYMBOL_nvmlDeviceGetGpuInstanceId, device);
    if (call.code == SUCCESS && !out) call.code = INVALID_ARGUMENT;
    if (call.code == SUCCESS && !call.instance) call.code = NOT_SUPPORTED;
    if (call.code == SUCCESS) *out = (unsigned)(call.instance - call.gpu->instances) + 1;
    return end(&call);
}

/* The mean of a value between two moments; an instance has so many sevenths of it as its number says, from 1. */
static void compute(const Gpu *gpu, const TakenSample *from, const TakenSample *to, GpmMetric *metric) {
    metric->code = NOT_SUPPORTED;
    for (unsigned i = 0; i < sizeof metrics / sizeof metrics[0]; i++) {
        const Value *value = &gpu->values[metrics[i].value];
        if (metrics[i].id != metric->id || !value->present) continue;
        double sum = 0, step = (to->at - from->at) / MOMENTS;
        for (int moment = 0; moment < MOMENTS; moment++) sum += value_at(world, value, from->at + step * (moment + 0.5));
        double part = from->instance < 0 ? 1 : (from->instance + 1) / (double)MOST_INSTANCES;
        metric->value = part * sum / MOMENTS;
        metric->code = SUCCESS;
    }
}

EXPORT int nvmlGpmMetricsGet(GpmMetricsGet *out) {
    Call call = begin_system(SYMBOL_nvmlGpmMetricsGet);
    if (call.code == SUCCESS && (!out || !out->first || !out->second)) call.code = INVALID_ARGUMENT;
    if (call.code == SUCCESS && out->version != 1) call.code = ARGUMENT_VERSION_MISMATCH;
    if (call.code == SUCCESS) {
        const TakenSample *from = out->first, *to = out->second;
        if (!from->taken || !to->taken || from->index != to->index || from->instance != to->instance ||
            to->at_us - from->at_us < LEAST_US || out->count > GPM_METRIC_MAX)
            call.code = INVALID_ARGUMENT;
        for (unsigned i = 0; call.code == SUCCESS && i < out->count; i++)
            compute(&world->gpus[from->index], from, to, &out->metrics[i]);
    }
    return end(&call);
}
