/* A libcuda.so.1 for tests: lists the PCI bus ids of CUDA_STUB_BUS_IDS (parted by commas, in the order of the bus).
 *
 * As the real driver, it reads its variables once, in cuInit: unless CUDA_DEVICE_ORDER is PCI_BUS_ID, the devices come
 * in another order (here: reversed); CUDA_VISIBLE_DEVICES (indices) selects among them. CUDA_STUB_INIT is the code
 * that cuInit answers. Creating a context is not offered: a caller that tries fails.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SUCCESS = 0, INVALID_DEVICE = 101, MOST = 16 };

static char all[MOST][32], seen[MOST][32];
static int total, count, started;

static void read_devices(void) {
    char text[512];
    snprintf(text, sizeof text, "%s", getenv("CUDA_STUB_BUS_IDS") ? getenv("CUDA_STUB_BUS_IDS") : "");
    for (char *part = strtok(text, ","); part && total < MOST; part = strtok(NULL, ","))
        snprintf(all[total++], sizeof all[0], "%s", part);
    const char *order = getenv("CUDA_DEVICE_ORDER");
    if (order && strcmp(order, "PCI_BUS_ID") == 0) return;
    for (int i = 0; i < total / 2; i++) {
        char kept[32];
        memcpy(kept, all[i], 32);
        memcpy(all[i], all[total - 1 - i], 32);
        memcpy(all[total - 1 - i], kept, 32);
    }
}

int cuInit(unsigned flags) {
    (void)flags;
    int code = getenv("CUDA_STUB_INIT") ? atoi(getenv("CUDA_STUB_INIT")) : SUCCESS;
    if (code || started) return code;
    started = 1;
    read_devices();
    const char *visible = getenv("CUDA_VISIBLE_DEVICES");
    char text[128];
    snprintf(text, sizeof text, "%s", visible ? visible : "0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15");
    for (char *part = strtok(text, ","); part; part = strtok(NULL, ",")) {
        int index = atoi(part);
        if (index < 0 || index >= total) break;
        memcpy(seen[count++], all[index], 32);
    }
    return SUCCESS;
}

int cuDeviceGetCount(int *out) {
    *out = count;
    return SUCCESS;
}

int cuDeviceGet(int *out, int ordinal) {
    *out = ordinal;
    return ordinal < count ? SUCCESS : INVALID_DEVICE;
}

int cuDeviceGetPCIBusId(char *out, int length, int device) {
    snprintf(out, (size_t)length, "%s", seen[device]);
    return device < count ? SUCCESS : INVALID_DEVICE;
}

int cuGetErrorString(int code, const char **out) {
    *out = code == 803 ? "system has unsupported display driver / cuda driver combination" : "unknown error";
    return SUCCESS;
}
