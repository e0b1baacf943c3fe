/* Xid errors as events. Each of the scenario's is delivered once to a process, to whoever waits for its GPU. */
#include <string.h>

#include "fake.h"

enum { MOST_SETS = 16, LOOK_AGAIN_US = 2000 };

typedef struct {
    int used;
    unsigned long long kinds[MOST_GPUS];
} EventSet;

static EventSet sets[MOST_SETS];
static unsigned char delivered[MOST_XID_SEQUENCE];

static EventSet *known_set(void *handle) {
    for (int i = 0; i < MOST_SETS; i++)
        if (handle == &sets[i] && sets[i].used) return &sets[i];
    return NULL;
}

void forget_event_sets(void) { memset(sets, 0, sizeof sets); }

static int create(void **out) {
    if (!out) return INVALID_ARGUMENT;
    for (int i = 0; i < MOST_SETS; i++)
        if (!sets[i].used) {
            sets[i] = (EventSet){.used = 1};
            *out = &sets[i];
            return SUCCESS;
        }
    return INSUFFICIENT_RESOURCES;
}

EXPORT int nvmlEventSetCreate(void **out) {
    Call call = begin_system(SYMBOL_nvmlEventSetCreate);
    if (call.code == SUCCESS) call.code = create(out);
    return end(&call);
}

EXPORT int nvmlEventSetFree(void *handle) {
    Call call = begin_system(SYMBOL_nvmlEventSetFree);
    EventSet *set = known_set(handle);
    if (call.code == SUCCESS && !set) call.code = INVALID_ARGUMENT;
    if (call.code == SUCCESS) set->used = 0;
    return end(&call);
}

EXPORT int nvmlDeviceRegisterEvents(void *device, unsigned long long kinds, void *handle) {
    unsigned long long supported;
    Call call = begin_device(SYMBOL_nvmlDeviceRegisterEvents, device);
    EventSet *set = known_set(handle);
    if (call.code == SUCCESS && !set) call.code = INVALID_ARGUMENT;
    if (call.code == SUCCESS) call.code = read_long(call.gpu, VALUE_EVENT_TYPES, &supported);
    if (call.code == SUCCESS && (kinds & ~supported)) call.code = NOT_SUPPORTED;
    if (call.code == SUCCESS) set->kinds[call.index] |= kinds;
    return end(&call);
}

/* The Xid with the lowest number that this set waits for; delivering it marks it. */
static int take_event(const EventSet *set, Event *out) {
    const Xid *next = NULL;
    for (unsigned i = 0; i < world->xid_count; i++) {
        const Xid *xid = &world->xids[i];
        if (delivered[xid->sequence] || !(set->kinds[xid->gpu] & XID_EVENT)) continue;
        if (!next || xid->sequence < next->sequence) next = xid;
    }
    if (!next) return TIMED_OUT;
    delivered[next->sequence] = 1;
    *out = (Event){&devices[next->gpu], XID_EVENT, next->xid, NO_INSTANCE, NO_INSTANCE};
    return SUCCESS;
}

static int wait_for_event(Call *call, void *handle, Event *out, unsigned timeout_ms) {
    long long until_us = monotonic_us() + timeout_ms * 1000LL;
    for (;;) {
        EventSet *set = known_set(handle);
        int whole, code = session_code();
        if (code != SUCCESS) return code;
        if (!set || !out) return INVALID_ARGUMENT;
        code = take_event(set, out);
        if (code == SUCCESS) call->index = device_index(out->device, &whole);
        long long left_us = until_us - monotonic_us();
        if (code == SUCCESS || left_us <= 0) return code;
        pause_call(left_us < LOOK_AGAIN_US ? left_us : LOOK_AGAIN_US);
    }
}

EXPORT int nvmlEventSetWait_v2(void *handle, Event *out, unsigned timeout_ms) {
    Call call = begin_system(SYMBOL_nvmlEventSetWait_v2);
    if (call.code == SUCCESS) call.code = wait_for_event(&call, handle, out, timeout_ms);
    return end(&call);
}
