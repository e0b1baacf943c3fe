/* What goes over the border to a caller: return codes and structures, laid out as NVML's are (a test compares them). */
#ifndef ANSWERS_H
#define ANSWERS_H

enum code {
    SUCCESS = 0,
    UNINITIALIZED = 1,
    INVALID_ARGUMENT = 2,
    NOT_SUPPORTED = 3,
    NOT_FOUND = 6,
    INSUFFICIENT_SIZE = 7,
    DRIVER_NOT_LOADED = 9,
    TIMED_OUT = 10,
    GPU_IS_LOST = 15,
    VERSION_MISMATCH = 18,
    INSUFFICIENT_RESOURCES = 23,
    ARGUMENT_VERSION_MISMATCH = 25,
    UNKNOWN = 999
};

enum kind { KIND_DOUBLE, KIND_UNSIGNED, KIND_UNSIGNED_LONG, KIND_UNSIGNED_LONG_LONG };

#define XID_EVENT 0x8ULL
#define NO_INSTANCE 0xFFFFFFFFu
#define EVERY_LINK 0xFFFFFFFFu
#define MEMORY_UNKNOWN 0xFFFFFFFFFFFFFFFFULL

typedef struct {
    char legacy_bus_id[16];
    unsigned domain, bus, device, device_id, subsystem_id;
    char bus_id[32];
} PciInfo;

typedef struct {
    unsigned gpu, memory;
} Utilization;

typedef struct {
    unsigned long long total, free, used;
} Memory;

typedef struct {
    unsigned version;
    unsigned long long total, reserved, free, used;
} MemoryV2;

typedef union {
    double real;
    unsigned natural;
    unsigned long natural_long;
    unsigned long long natural_long_long;
    long long whole_long_long;
    int whole;
    unsigned short natural_short;
} Number;

typedef struct {
    unsigned long long time_us;
    Number value;
} Sample;

typedef struct {
    unsigned field, scope;
    long long time_us, latency_us;
    int kind, code;
    Number value;
} FieldValue;

typedef struct {
    unsigned version, sensor;
    int celsius;
} Temperature;

typedef struct {
    unsigned version;
    int celsius;
} MarginTemperature;

typedef struct {
    unsigned version;
    unsigned char cluster[16];
    int status;
    unsigned clique;
    unsigned char state;
    unsigned health;
} FabricInfo;

typedef struct {
    unsigned version, supported;
} GpmSupport;

typedef struct {
    unsigned id;
    int code;
    double value;
    struct {
        char *short_name, *long_name, *unit;
    } info;
} GpmMetric;

enum { GPM_METRIC_MAX = 477 };

typedef struct {
    unsigned version, count;
    void *first, *second;
    GpmMetric metrics[GPM_METRIC_MAX];
} GpmMetricsGet;

typedef struct {
    unsigned pid;
    unsigned long long memory;
    unsigned gpu_instance, compute_instance;
} ProcessInfo;

typedef struct {
    void *device;
    unsigned long long kind, data;
    unsigned gpu_instance, compute_instance;
} Event;

#endif
