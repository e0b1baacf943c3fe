/* Reads a scenario: lines of `key = value`, `#` begins a comment. What is wrong with one is kept in `fault`.
 *
 *   driver_version, nvml_version, cuda_version, trace, epoch (Unix time at which waves and counters began)
 *   init = CODE, driver_generation = N                   what nvmlInit answers; another N is another driver
 *   latency_us[.FUNCTION] = N, code.FUNCTION = CODE
 *   topology[.GPU.GPU] = LEVEL, xid.SEQUENCE = GPU XID
 *   gpu.N.FIGURE = VALUE                                 symbols.h lists the figures, series.c reads the values
 *   gpu.N.{uuid,name,pci_bus_id,pci_device_id,pci_subsystem_id,compute_capability} = TEXT
 *   gpu.N.latency_us[.FUNCTION] = N
 *   gpu.N.code.FUNCTION = CODE, gpu.N.field_code.ID = CODE, gpu.N.every_code = CODE (of all of them; the next may differ)
 *   gpu.N.mig_instance.NUMBER = UUID TOTAL USED NAME     in bytes; they are there while gpu.N.mig = 1
 *   gpu.N.[graphics_]process.PID = BYTES|- NAME, gpu.N.nvlink.LANE = down | BUS_ID | switch [BUS_ID]
 */
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "fake.h"

static const char *const symbol_names[] = {
#define X(name) #name,
    SYMBOLS(X)
#undef X
};

static const char *const value_names[] = {
#define X(name, key) key,
    VALUES(X)
#undef X
};

static int find(const char *const *names, int count, const char *name) {
    for (int i = 0; i < count; i++)
        if (strcmp(names[i], name) == 0) return i;
    return -1;
}

/* The rest of `text` behind `prefix`, or NULL. */
static const char *behind(const char *text, const char *prefix) {
    size_t length = strlen(prefix);
    return strncmp(text, prefix, length) == 0 ? text + length : NULL;
}

static const char *read_whole(const char *text, long least, long most, long *out) {
    char *rest;
    *out = strtol(text, &rest, 0);
    if (rest == text || *rest) return "expected a whole number";
    return *out < least || *out > most ? "this number is out of range" : NULL;
}

static const char *set_int(int *out, const char *text) {
    long number;
    const char *fault = read_whole(text, -1000000, 2000000000, &number);
    if (!fault) *out = (int)number;
    return fault;
}

static const char *set_text(char *out, size_t size, const char *text) {
    if (strlen(text) >= size) return "this text is too long";
    strcpy(out, text);
    return NULL;
}

static const char *set_symbol(int *of, const char *name, const char *text) {
    int symbol = find(symbol_names, SYMBOL_COUNT, name);
    return symbol < 0 ? "no such function here" : set_int(&of[symbol], text);
}

static const char *set_every_code(Gpu *gpu, const char *text) {
    long code;
    const char *fault = read_whole(text, 0, 999, &code);
    for (int i = 0; !fault && i < SYMBOL_COUNT; i++) gpu->code[i] = (int)code;
    for (int i = 0; !fault && i < MOST_FIELDS; i++) gpu->field_code[i] = (short)code;
    return fault;
}

static const char *set_field_code(Gpu *gpu, const char *id, const char *text) {
    long field, code;
    const char *fault = read_whole(id, 0, MOST_FIELDS - 1, &field);
    if (!fault) fault = read_whole(text, 0, 999, &code);
    if (!fault) gpu->field_code[field] = (short)code;
    return fault;
}

static const char *add_process(Gpu *gpu, int graphics, const char *pid_text, const char *text) {
    long pid;
    const char *fault = read_whole(pid_text, 1, 4194304, &pid);
    if (fault) return fault;
    if (gpu->process_count == MOST_PROCESSES) return "too many processes on this GPU";
    char *rest;
    unsigned long long memory = *text == '-' ? MEMORY_UNKNOWN : strtoull(text, &rest, 10);
    if (*text == '-') rest = (char *)text + 1;
    if (rest == text || (*rest && *rest != ' ')) return "expected BYTES NAME, or - NAME";
    Process *process = &gpu->processes[gpu->process_count++];
    *process = (Process){.pid = (unsigned)pid, .graphics = graphics, .memory = memory};
    return set_text(process->name, sizeof process->name, rest + strspn(rest, " "));
}

static const char *set_instance(Gpu *gpu, const char *number, const char *text) {
    long which;
    int read = 0;
    const char *fault = read_whole(number, 0, MOST_INSTANCES - 1, &which);
    if (fault) return fault;
    Instance *instance = &gpu->instances[which];
    if (sscanf(text, "%95s %llu %llu %n", instance->uuid, &instance->total, &instance->used, &read) != 3 || !read)
        return "expected UUID TOTAL USED NAME";
    return set_text(instance->name, sizeof instance->name, text + read);
}

static const char *set_link(Gpu *gpu, const char *number, const char *text) {
    long lane;
    const char *fault = read_whole(number, 0, MOST_LINKS - 1, &lane);
    if (fault) return fault;
    Link *link = &gpu->links[lane];
    *link = (Link){.present = 1, .active = strcmp(text, "down") != 0};
    if ((unsigned)lane >= gpu->link_count) gpu->link_count = (unsigned)lane + 1;
    const char *rest = behind(text, "switch");
    link->to_switch = rest != NULL;
    if (rest) text = rest + strspn(rest, " ");
    if (!link->active || !*text) return NULL;
    unsigned part[4];
    if (!parse_bus_id(text, part)) return "expected down, a PCI bus id, or switch with or without one";
    return set_text(link->bus_id, sizeof link->bus_id, text);
}

static const char *set_latency(long *of_all, long *of_symbol, const char *name, const char *text) {
    long microseconds;
    const char *fault = read_whole(text, 0, 3600000000L, &microseconds);
    int symbol = *name ? find(symbol_names, SYMBOL_COUNT, name) : -1;
    if (*name && symbol < 0) return "no such function here";
    if (!fault) *(*name ? &of_symbol[symbol] : of_all) = microseconds;
    return fault;
}

static const char *set_gpu(World *in, Gpu *gpu, const char *key, const char *text) {
    const char *rest;
    int which = find(value_names, VALUE_COUNT, key);
    if (which >= 0) return parse_value(in, &gpu->values[which], text);
    if (!strcmp(key, "uuid")) return set_text(gpu->uuid, sizeof gpu->uuid, text);
    if (!strcmp(key, "name")) return set_text(gpu->name, sizeof gpu->name, text);
    if (!strcmp(key, "pci_bus_id")) return set_text(gpu->bus_id, sizeof gpu->bus_id, text);
    if (!strcmp(key, "pci_device_id")) return set_text(gpu->device_id, sizeof gpu->device_id, text);
    if (!strcmp(key, "pci_subsystem_id")) return set_text(gpu->subsystem_id, sizeof gpu->subsystem_id, text);
    if (!strcmp(key, "compute_capability")) return set_text(gpu->capability, sizeof gpu->capability, text);
    if (!strcmp(key, "latency_us")) return set_latency(&gpu->latency_us, gpu->symbol_latency_us, "", text);
    if ((rest = behind(key, "latency_us."))) return set_latency(&gpu->latency_us, gpu->symbol_latency_us, rest, text);
    if (!strcmp(key, "every_code")) return set_every_code(gpu, text);
    if ((rest = behind(key, "code."))) return set_symbol(gpu->code, rest, text);
    if ((rest = behind(key, "field_code."))) return set_field_code(gpu, rest, text);
    if ((rest = behind(key, "process."))) return add_process(gpu, 0, rest, text);
    if ((rest = behind(key, "graphics_process."))) return add_process(gpu, 1, rest, text);
    if ((rest = behind(key, "mig_instance."))) return set_instance(gpu, rest, text);
    if ((rest = behind(key, "nvlink."))) return set_link(gpu, rest, text);
    return "no such key of a GPU";
}

static const char *set_any_gpu(World *in, const char *key, const char *text) {
    char *rest;
    unsigned long index = strtoul(key, &rest, 10);
    if (rest == key || *rest != '.') return "expected gpu.INDEX.KEY";
    if (index >= MOST_GPUS) return "too many GPUs";
    if (index >= in->gpu_count) in->gpu_count = (unsigned)index + 1;
    return set_gpu(in, &in->gpus[index], rest + 1, text);
}

static const char *add_xid(World *in, const char *sequence, const char *text) {
    long number;
    const char *fault = read_whole(sequence, 1, MOST_XID_SEQUENCE - 1, &number);
    if (fault) return fault;
    if (in->xid_count == MOST_XIDS) return "too many Xids";
    Xid *xid = &in->xids[in->xid_count++];
    xid->sequence = (unsigned)number;
    char more;
    if (sscanf(text, "%u %u %c", &xid->gpu, &xid->xid, &more) != 2 || xid->gpu >= MOST_GPUS) return "expected GPU XID";
    return NULL;
}

static const char *set_topology(World *in, const char *pair, const char *text) {
    unsigned one, other;
    char more;
    if (sscanf(pair, "%u.%u%c", &one, &other, &more) != 2 || one >= MOST_GPUS || other >= MOST_GPUS)
        return "expected topology.GPU.GPU";
    const char *fault = set_int(&in->topology[one][other], text);
    in->topology[other][one] = in->topology[one][other];
    return fault;
}

static const char *set_world(World *in, const char *key, const char *text) {
    const char *rest;
    long number;
    if ((rest = behind(key, "gpu."))) return set_any_gpu(in, rest, text);
    if ((rest = behind(key, "xid."))) return add_xid(in, rest, text);
    if ((rest = behind(key, "code."))) return set_symbol(in->code, rest, text);
    if ((rest = behind(key, "topology."))) return set_topology(in, rest, text);
    if ((rest = behind(key, "latency_us."))) return set_latency(&in->latency_us, in->symbol_latency_us, rest, text);
    if (!strcmp(key, "latency_us")) return set_latency(&in->latency_us, in->symbol_latency_us, "", text);
    if (!strcmp(key, "topology")) return set_int(&in->default_topology, text);
    if (!strcmp(key, "driver_version")) return set_text(in->driver_version, sizeof in->driver_version, text);
    if (!strcmp(key, "nvml_version")) return set_text(in->nvml_version, sizeof in->nvml_version, text);
    if (!strcmp(key, "trace")) return set_text(in->trace, sizeof in->trace, text);
    if (!strcmp(key, "cuda_version")) return set_int(&in->cuda_version, text);
    if (!strcmp(key, "init")) return set_int(&in->init, text);
    if (!strcmp(key, "driver_generation")) {
        const char *fault = read_whole(text, 0, 1000000000, &number);
        if (!fault) in->generation = (unsigned)number;
        return fault;
    }
    if (!strcmp(key, "epoch")) {
        char *end_of_number;
        in->epoch = strtod(text, &end_of_number);
        return *end_of_number || !(in->epoch > 0) ? "expected a Unix time" : NULL;
    }
    return "no such key";
}

static char *trim(char *text) {
    text += strspn(text, " \t");
    size_t length = strlen(text);
    while (length && strchr(" \t\r\n", text[length - 1])) text[--length] = 0;
    return text;
}

__attribute__((format(printf, 2, 3))) static void blame(World *in, const char *format, ...) {
    if (in->fault[0]) return;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(in->fault, sizeof in->fault, format, arguments);
    va_end(arguments);
}

static void check_gpus(World *in) {
    unsigned part[4];
    for (unsigned i = 0; i < in->gpu_count; i++) {
        const Gpu *gpu = &in->gpus[i];
        if (!gpu->uuid[0]) blame(in, "gpu.%u.uuid is missing: GPUs are numbered from 0 without a gap", i);
        if (!parse_bus_id(gpu->bus_id, part)) blame(in, "gpu.%u.pci_bus_id: expected 00000000:17:00.0", i);
    }
}

/* Domain, bus, device and function; returns whether `text` is a PCI bus id. */
int parse_bus_id(const char *text, unsigned part[4]) {
    char more;
    part[3] = 0;
    int found = sscanf(text, "%8x:%2x:%2x.%1x%c", &part[0], &part[1], &part[2], &part[3], &more);
    return found == 3 || found == 4;
}

void read_scenario(FILE *file, World *in) {
    char line[1024];
    memset(in, 0, sizeof *in);
    in->default_topology = -1;
    for (int i = 0; i < SYMBOL_COUNT; i++) in->symbol_latency_us[i] = -1;
    for (int i = 0; i < MOST_GPUS; i++) {
        in->gpus[i].latency_us = -1;
        for (int j = 0; j < SYMBOL_COUNT; j++) in->gpus[i].symbol_latency_us[j] = -1;
    }
    for (int i = 0; i < MOST_GPUS; i++)
        for (int j = 0; j < MOST_GPUS; j++) in->topology[i][j] = -1;
    for (int number = 1; fgets(line, sizeof line, file); number++) {
        if (!strchr(line, '\n') && !feof(file)) blame(in, "line %d is too long", number);
        char *key = trim(line);
        if (!*key || *key == '#') continue;
        char *text = strchr(key, '=');
        if (!text) {
            blame(in, "line %d: expected key = value, found %s", number, key);
            continue;
        }
        *text++ = 0;
        text = trim(text);
        const char *fault = set_world(in, trim(key), text);
        if (fault) blame(in, "line %d: %s = %s: %s", number, key, text, fault);
    }
    check_gpus(in);
}
