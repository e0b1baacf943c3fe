/* How GPUs are placed and linked: PCI, the topology between two, NVLink. */
#include <stdlib.h>
#include <string.h>

#include "fake.h"

void fill_pci_info(const char *bus_id, const Gpu *gpu, PciInfo *out) {
    unsigned part[4] = {0};
    memset(out, 0, sizeof *out);
    parse_bus_id(bus_id, part);
    out->domain = part[0], out->bus = part[1], out->device = part[2];
    out->device_id = gpu ? (unsigned)strtoul(gpu->device_id, NULL, 16) : 0;
    out->subsystem_id = gpu ? (unsigned)strtoul(gpu->subsystem_id, NULL, 16) : 0;
    snprintf(out->bus_id, sizeof out->bus_id, "%08X:%02X:%02X.%X", part[0], part[1] & 0xFF, part[2] & 0xFF, part[3] & 7);
    snprintf(out->legacy_bus_id, sizeof out->legacy_bus_id, "%04X:%02X:%02X.%X", part[0] & 0xFFFF, part[1] & 0xFF,
             part[2] & 0xFF, part[3] & 7);
}

EXPORT int nvmlDeviceGetTopologyCommonAncestor(void *device, void *other, int *out) {
    Call call = begin_device(SYMBOL_nvmlDeviceGetTopologyCommonAncestor, device);
    int whole, second = device_index(other, &whole);
    if (call.code == SUCCESS && !out) call.code = INVALID_ARGUMENT;
    if (call.code == SUCCESS) call.code = device_code(second);
    if (call.code == SUCCESS) {
        *out = call.index == second ? 0 : world->topology[call.index][second];
        if (*out < 0) *out = world->default_topology;
        if (*out < 0) call.code = NOT_SUPPORTED;
    }
    return end(&call);
}

/* The link that a call is about; NULL where the call has failed or there is no such link. */
static const Link *find_link(Call *call, unsigned lane, const void *out) {
    if (call->code != SUCCESS) return NULL;
    if (!out || lane >= MOST_LINKS) call->code = INVALID_ARGUMENT;
    else if (!call->gpu->links[lane].present) call->code = NOT_SUPPORTED;
    return call->code == SUCCESS ? &call->gpu->links[lane] : NULL;
}

EXPORT int nvmlDeviceGetNvLinkState(void *device, unsigned lane, unsigned *out) {
    Call call = begin_device(SYMBOL_nvmlDeviceGetNvLinkState, device);
    const Link *link = find_link(&call, lane, out);
    if (link) *out = (unsigned)link->active;
    return end(&call);
}

EXPORT int nvmlDeviceGetNvLinkRemoteDeviceType(void *device, unsigned lane, unsigned *out) {
    Call call = begin_device(SYMBOL_nvmlDeviceGetNvLinkRemoteDeviceType, device);
    const Link *link = find_link(&call, lane, out);
    if (link && !link->active) call.code = NOT_SUPPORTED;
    else if (link) *out = link->to_switch ? 2 : 0;
    return end(&call);
}

EXPORT int nvmlDeviceGetNvLinkRemotePciInfo_v2(void *device, unsigned lane, PciInfo *out) {
    Call call = begin_device(SYMBOL_nvmlDeviceGetNvLinkRemotePciInfo_v2, device);
    const Link *link = find_link(&call, lane, out);
    if (link && !link->bus_id[0]) call.code = NOT_SUPPORTED;
    else if (link) fill_pci_info(link->bus_id, NULL, out);
    return end(&call);
}
