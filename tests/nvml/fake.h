/* What the files of this library share: the world that a scenario describes, and how a call begins and ends. */
#ifndef FAKE_H
#define FAKE_H

#include <stdio.h>

#include "answers.h"
#include "symbols.h"

#define EXPORT __attribute__((visibility("default")))

enum { MOST_GPUS = 16, MOST_LINKS = 36, MOST_PROCESSES = 32, MOST_XIDS = 256, MOST_FIELDS = 512, MOST_STEPS = 8192 };
enum { MOST_XID_SEQUENCE = 4096, MOST_INSTANCES = 7 };

typedef struct {
    double value, seconds;
} Step;

/* Either steps that are repeated for ever, or (rate ≠ 0) a counter: start + rate × seconds. */
typedef struct {
    int present;
    double start, rate, period;
    unsigned first, count;
} Value;

typedef struct {
    unsigned pid;
    int graphics;
    unsigned long long memory;
    char name[200];
} Process;

typedef struct {
    int present, active, to_switch;
    char bus_id[32];
} Link;

/* A MIG instance of a GPU; without a UUID there is none of this number. */
typedef struct {
    char uuid[96], name[96];
    unsigned long long total, used;
} Instance;

typedef struct {
    char uuid[96], name[96], bus_id[32], capability[16], device_id[16], subsystem_id[16];
    long latency_us, symbol_latency_us[SYMBOL_COUNT]; /* -1: as on every GPU */
    int code[SYMBOL_COUNT];
    short field_code[MOST_FIELDS];
    Value values[VALUE_COUNT];
    Process processes[MOST_PROCESSES];
    unsigned process_count;
    Link links[MOST_LINKS];
    unsigned link_count;
    Instance instances[MOST_INSTANCES];
} Gpu;

typedef struct {
    unsigned sequence, gpu, xid;
} Xid;

typedef struct {
    char fault[300];
    char driver_version[80], nvml_version[80], trace[300];
    int cuda_version, init;
    unsigned generation;
    double epoch;
    long latency_us, symbol_latency_us[SYMBOL_COUNT]; /* -1: as every other function */
    int code[SYMBOL_COUNT];
    unsigned gpu_count;
    Gpu gpus[MOST_GPUS];
    int default_topology, topology[MOST_GPUS][MOST_GPUS];
    Xid xids[MOST_XIDS];
    unsigned xid_count;
    Step steps[MOST_STEPS];
    unsigned step_count;
} World;

/* A handle points to one of these; it stays valid as long as the library is loaded. */
typedef struct {
    long long calls;
    int lost;
    char instances[MOST_INSTANCES]; /* their addresses are the handles of MIG instances */
} Device;

typedef struct {
    enum symbol symbol;
    int index;
    int code;
    const Gpu *gpu;
    const Instance *instance; /* NULL: the whole GPU */
    long long begun_us;
} Call;

/* scenario.c */
void read_scenario(FILE *file, World *world);
int parse_bus_id(const char *text, unsigned part[4]);

/* series.c */
double seconds_now(void);
long long monotonic_us(void);
void sleep_us(long long microseconds);
double value_at(const World *world, const Value *value, double when);
const char *parse_value(World *world, Value *value, const char *text);

/* call.c: from begin… to end the lock is held */
extern const World *world, *previous_world;
extern double changed_at;
extern Device devices[MOST_GPUS];
Call begin_first(enum symbol symbol);
Call begin_system(enum symbol symbol);
Call begin_device(enum symbol symbol, void *device);
Call begin_blocking(enum symbol symbol, void *device, long at_least_us);
int end(Call *call);
int open_session(void);
int close_session(void);
int session_code(void);
int device_index(const void *device, int *instance);
int device_code(int index);
void pause_call(long long microseconds);
int copy_text(char *out, unsigned length, const char *text);
int read_number(const Gpu *gpu, enum value which, double *out);
int read_unsigned(const Gpu *gpu, enum value which, unsigned *out);
int read_long(const Gpu *gpu, enum value which, unsigned long long *out);

/* device.c, links.c */
int read_utilization(const Gpu *gpu, enum value which, unsigned *out);
void fill_pci_info(const char *bus_id, const Gpu *gpu, PciInfo *out);

/* events.c */
void forget_event_sets(void);

#endif
