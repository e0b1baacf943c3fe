/* A libnvidia-ml.so.1 for tests: answers what the scenario file named by NVML_STUB holds.
 *
 * First line: the code that nvmlInit answers. Then a line for each GPU, fields parted by '|':
 *   uuid|bus id|name|total MiB|free MiB|capability, such as 8.9
 * GPU n is (40 + 10 n) % busy and takes 100 (n + 1) W. A '-' in the place of a number is answered with NOT_SUPPORTED, a uuid of '!' with GPU_IS_LOST.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SUCCESS = 0, UNINITIALIZED = 1, INVALID = 2, NOT_SUPPORTED = 3, NOT_FOUND = 6, DRIVER_NOT_LOADED = 9, GPU_IS_LOST = 15,
       UNKNOWN = 999, MOST = 16 };

typedef struct { char uuid[96], bus[32], name[96], total[16], free[16], capability[16]; } Device;
typedef struct { char legacy[16]; unsigned domain, bus, device, id, subsystem; char bus_id[32]; } PciInfo;
typedef struct { unsigned long long total, free, used; } Memory;
typedef struct { unsigned gpu, memory; } Utilization;

static Device devices[MOST];
static unsigned count;
static int started;

int nvmlInitWithFlags(unsigned flags) {
    (void)flags;
    const char *path = getenv("NVML_STUB");
    FILE *file = path ? fopen(path, "r") : NULL;
    int code = UNKNOWN;
    char line[512];
    if (!file) return UNKNOWN;
    if (fgets(line, sizeof line, file)) code = atoi(line);
    count = 0;
    while (count < MOST && fgets(line, sizeof line, file)) {
        Device *d = &devices[count];
        if (sscanf(line, "%95[^|]|%31[^|]|%95[^|]|%15[^|]|%15[^|]|%15[^\n]", d->uuid, d->bus, d->name, d->total, d->free,
                   d->capability) == 6)
            count++;
    }
    fclose(file);
    started = code == SUCCESS;
    return code;
}

int nvmlShutdown(void) {
    started = 0;
    return SUCCESS;
}

const char *nvmlErrorString(int code) {
    switch (code) {
    case SUCCESS: return "Success";
    case NOT_SUPPORTED: return "Not Supported";
    case DRIVER_NOT_LOADED: return "Driver Not Loaded";
    case GPU_IS_LOST: return "GPU is lost";
    case 18: return "Driver/library version mismatch";
    default: return "Unknown Error";
    }
}

int nvmlDeviceGetCount_v2(unsigned *out) {
    *out = count;
    return started ? SUCCESS : UNINITIALIZED;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned index, Device **out) {
    if (!started) return UNINITIALIZED;
    if (index >= count) return INVALID;
    *out = &devices[index];
    return devices[index].uuid[0] == '!' ? GPU_IS_LOST : SUCCESS;
}

int nvmlDeviceGetUUID(Device *device, char *out, unsigned length) {
    snprintf(out, length, "%s", device->uuid);
    return SUCCESS;
}

int nvmlDeviceGetName(Device *device, char *out, unsigned length) {
    snprintf(out, length, "%s", device->name);
    return SUCCESS;
}

int nvmlDeviceGetPciInfo_v3(Device *device, PciInfo *out) {
    memset(out, 0, sizeof *out);
    snprintf(out->bus_id, sizeof out->bus_id, "%s", device->bus);
    return SUCCESS;
}

int nvmlDeviceGetMemoryInfo(Device *device, Memory *out) {
    if (device->total[0] == '-') return NOT_SUPPORTED;
    out->total = strtoull(device->total, NULL, 10) << 20;
    out->free = strtoull(device->free, NULL, 10) << 20;
    out->used = out->total - out->free;
    return SUCCESS;
}

int nvmlDeviceGetCudaComputeCapability(Device *device, int *major, int *minor) {
    return sscanf(device->capability, "%d.%d", major, minor) == 2 ? SUCCESS : NOT_SUPPORTED;
}

int nvmlDeviceGetHandleByUUID(const char *uuid, Device **out) {
    for (unsigned i = 0; started && i < count; i++)
        if (!strcmp(devices[i].uuid, uuid)) {
            *out = &devices[i];
            return SUCCESS;
        }
    return started ? NOT_FOUND : UNINITIALIZED;
}

int nvmlDeviceGetUtilizationRates(Device *device, Utilization *out) {
    out->gpu = 40 + 10 * (unsigned)(device - devices);
    out->memory = 0;
    return device->total[0] == '-' ? NOT_SUPPORTED : SUCCESS;
}

int nvmlDeviceGetPowerUsage(Device *device, unsigned *milliwatts) {
    *milliwatts = 100000 * (1 + (unsigned)(device - devices));
    return device->total[0] == '-' ? NOT_SUPPORTED : SUCCESS;
}
