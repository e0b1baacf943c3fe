/* How every call begins and ends: the scenario is looked at, time passes, and codes that it orders are answered. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fake.h"

enum { LOOK_EVERY_US = 5000, LOOK_IN_CALL_US = 20000 };

static const char *const symbol_names[] = {
#define X(name) #name,
    SYMBOLS(X)
#undef X
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static World worlds[2];
const World *world = &worlds[0], *previous_world = &worlds[1];
double changed_at; /* when `world` took the place of `previous_world`, 0: it is the first */
Device devices[MOST_GPUS];

static unsigned references, generation; /* of the open session: nvmlInit less nvmlShutdown, and which driver it is */
static int session_lost;                /* the driver went away under the session */
static long long looked_us;
static struct stat seen;
static char trace_path[sizeof worlds[0].trace];
static int trace_file = -1;

static int same_file(const struct stat *one, const struct stat *other) {
    return one->st_ino == other->st_ino && one->st_size == other->st_size &&
           one->st_mtim.tv_sec == other->st_mtim.tv_sec && one->st_mtim.tv_nsec == other->st_mtim.tv_nsec;
}

static void open_trace(void) {
    const char *wanted = world->trace[0] ? world->trace : getenv("NVML_FAKE_TRACE");
    if (!wanted) wanted = "";
    if (strcmp(wanted, trace_path) == 0) return;
    if (trace_file >= 0) close(trace_file);
    snprintf(trace_path, sizeof trace_path, "%s", wanted);
    trace_file = *wanted ? open(wanted, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0644) : -1;
    if (*wanted && trace_file < 0) fprintf(stderr, "libnvidia-ml of the tests: the trace %s cannot be opened\n", wanted);
}

static void load(const char *path) {
    World *next = world == &worlds[0] ? &worlds[1] : &worlds[0];
    FILE *file = fopen(path, "re");
    struct stat found;
    if (!file) return;
    if (fstat(fileno(file), &found) == 0) {
        read_scenario(file, next);
        if (next->fault[0]) fprintf(stderr, "libnvidia-ml of the tests: %s: %s\n", path, next->fault);
        int first = seen.st_ino == 0;
        changed_at = first ? 0 : (double)found.st_mtim.tv_sec + (double)found.st_mtim.tv_nsec * 1e-9;
        previous_world = world;
        world = next;
        seen = found;
    }
    fclose(file);
    open_trace();
}

/* What a scenario does to the session that is open: GPUs and drivers go, and do not come back to it. */
static void apply_losses(void) {
    if (!references) return;
    if (world->init != SUCCESS || world->generation != generation) {
        session_lost = 1;
        references = 0;
        forget_event_sets();
    }
    for (unsigned i = 0; i < world->gpu_count; i++) {
        const Value *lost = &world->gpus[i].values[VALUE_LOST];
        if (lost->present && value_at(world, lost, seconds_now()) > 0) devices[i].lost = 1;
    }
    for (unsigned i = world->gpu_count; i < MOST_GPUS; i++) devices[i].lost = 1;
}

static void look(long long now_us, int at_once) {
    if (!at_once && now_us - looked_us < LOOK_EVERY_US) return;
    looked_us = now_us;
    const char *path = getenv("NVML_FAKE");
    struct stat found;
    if (!path) {
        if (at_once) fprintf(stderr, "libnvidia-ml of the tests: NVML_FAKE names no scenario\n");
        return;
    }
    if (stat(path, &found) == 0) {
        if (!same_file(&found, &seen)) load(path);
    } else if (at_once) {
        fprintf(stderr, "libnvidia-ml of the tests: there is no scenario %s\n", path);
    }
    apply_losses();
}

/* The driver's state, for a call that needs a session. */
int session_code(void) {
    if (world->fault[0] || !seen.st_ino) return UNKNOWN;
    if (references) return SUCCESS;
    return session_lost && world->init != SUCCESS ? world->init : UNINITIALIZED;
}

/* The GPU of a handle, -1: it is none. `instance` becomes the MIG instance's number, -1: the whole GPU. */
int device_index(const void *device, int *instance) {
    long offset = (long)((const char *)device - (const char *)devices);
    *instance = -1;
    if (offset < 0 || offset >= (long)sizeof devices) return -1;
    int index = (int)(offset / (long)sizeof devices[0]);
    if (device == &devices[index]) return index;
    for (int i = 0; i < MOST_INSTANCES; i++)
        if (device == &devices[index].instances[i]) *instance = i;
    return *instance < 0 ? -1 : index;
}

/* What NVML answers for an instance too; of the rest it only knows the whole GPU. */
static int answers_instances(enum symbol symbol) {
    switch (symbol) {
    case SYMBOL_nvmlDeviceGetUUID:
    case SYMBOL_nvmlDeviceGetName:
    case SYMBOL_nvmlDeviceGetGpuInstanceId:
    case SYMBOL_nvmlDeviceGetMemoryInfo:
    case SYMBOL_nvmlDeviceGetMemoryInfo_v2:
    case SYMBOL_nvmlDeviceGetComputeRunningProcesses_v3:
    case SYMBOL_nvmlDeviceGetGraphicsRunningProcesses_v3: return 1;
    default: return 0;
    }
}

int device_code(int index) {
    if (index < 0) return INVALID_ARGUMENT;
    Device *device = &devices[index];
    if (device->lost || (unsigned)index >= world->gpu_count) return GPU_IS_LOST;
    const Value *most = &world->gpus[index].values[VALUE_LOST_AFTER_CALLS];
    if (most->present && device->calls > (long long)value_at(world, most, seconds_now())) device->lost = 1;
    return device->lost ? GPU_IS_LOST : SUCCESS;
}

void pause_call(long long microseconds) {
    pthread_mutex_unlock(&lock);
    sleep_us(microseconds);
    pthread_mutex_lock(&lock);
    look(monotonic_us(), 0);
}

/* The closest that the scenario says: of this function on this GPU, of this GPU, of this function, of all. */
static long latency_us(enum symbol symbol, int index) {
    if (index >= 0 && (unsigned)index < world->gpu_count) {
        const Gpu *gpu = &world->gpus[index];
        if (gpu->symbol_latency_us[symbol] >= 0) return gpu->symbol_latency_us[symbol];
        if (gpu->latency_us >= 0) return gpu->latency_us;
    }
    return world->symbol_latency_us[symbol] >= 0 ? world->symbol_latency_us[symbol] : world->latency_us;
}

/* A call that hangs comes back when the scenario says so: its latency is looked up again while it waits. */
static Call begin(enum symbol symbol, int index, long at_least_us) {
    Call call = {.symbol = symbol, .index = index, .begun_us = monotonic_us()};
    pthread_mutex_lock(&lock);
    look(call.begun_us, symbol == SYMBOL_nvmlInitWithFlags || symbol == SYMBOL_nvmlInit_v2);
    long long locked_us = monotonic_us();
    for (;;) {
        long total_us = latency_us(symbol, index);
        if (total_us < at_least_us) total_us = at_least_us;
        long long left_us = total_us ? locked_us + total_us - monotonic_us() : 0;
        if (left_us <= 0) return call;
        pause_call(left_us < LOOK_IN_CALL_US ? left_us : LOOK_IN_CALL_US);
    }
}

Call begin_first(enum symbol symbol) {
    Call call = begin(symbol, -1, 0);
    call.code = world->fault[0] || !seen.st_ino ? (int)UNKNOWN : world->code[symbol];
    return call;
}

Call begin_system(enum symbol symbol) {
    Call call = begin(symbol, -1, 0);
    call.code = session_code();
    if (call.code == SUCCESS) call.code = world->code[symbol];
    return call;
}

Call begin_blocking(enum symbol symbol, void *device, long at_least_us) {
    int instance;
    Call call = begin(symbol, device_index(device, &instance), at_least_us);
    call.code = session_code();
    if (call.code != SUCCESS) return call;
    if (call.index >= 0) devices[call.index].calls++;
    call.code = device_code(call.index);
    if (call.code != SUCCESS) return call;
    call.gpu = &world->gpus[call.index];
    call.code = call.gpu->code[symbol] ? call.gpu->code[symbol] : world->code[symbol];
    if (call.code != SUCCESS || instance < 0) return call;
    call.instance = &call.gpu->instances[instance];
    if (!call.instance->uuid[0]) call.code = INVALID_ARGUMENT; /* it was destroyed */
    else if (!answers_instances(symbol)) call.code = NOT_SUPPORTED;
    return call;
}

Call begin_device(enum symbol symbol, void *device) { return begin_blocking(symbol, device, 0); }

int end(Call *call) {
    if (trace_file >= 0) {
        char line[160], gpu[12] = "-";
        if (call->index >= 0) snprintf(gpu, sizeof gpu, "%d", call->index);
        int length =
            snprintf(line, sizeof line, "%lld %s %s %d\n", call->begun_us, symbol_names[call->symbol], gpu, call->code);
        if (write(trace_file, line, (size_t)length) != length) perror("libnvidia-ml of the tests: trace");
    }
    pthread_mutex_unlock(&lock);
    return call->code;
}

/* Whoever opens a session sees what is there now: the lost are forgotten, unless the scenario still says so. */
int open_session(void) {
    if (world->init != SUCCESS) return world->init;
    if (references++) return SUCCESS;
    session_lost = 0;
    generation = world->generation;
    for (int i = 0; i < MOST_GPUS; i++) devices[i].lost = 0;
    apply_losses();
    return SUCCESS;
}

int close_session(void) {
    if (!references) return session_code();
    if (--references == 0) forget_event_sets();
    return SUCCESS;
}

int copy_text(char *out, unsigned length, const char *text) {
    if (!out) return INVALID_ARGUMENT;
    if (strlen(text) >= length) return INSUFFICIENT_SIZE;
    strcpy(out, text);
    return SUCCESS;
}

int read_number(const Gpu *gpu, enum value which, double *out) {
    if (!gpu->values[which].present) return NOT_SUPPORTED;
    *out = value_at(world, &gpu->values[which], seconds_now());
    return SUCCESS;
}

int read_unsigned(const Gpu *gpu, enum value which, unsigned *out) {
    double number;
    if (!out) return INVALID_ARGUMENT;
    int code = read_number(gpu, which, &number);
    if (code == SUCCESS) *out = (unsigned)number;
    return code;
}

int read_long(const Gpu *gpu, enum value which, unsigned long long *out) {
    double number;
    if (!out) return INVALID_ARGUMENT;
    int code = read_number(gpu, which, &number);
    if (code == SUCCESS) *out = (unsigned long long)number;
    return code;
}
