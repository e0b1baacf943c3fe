/* Values that change with time: "90x10 5x10" is 90 for ten seconds, then 5 for ten, for ever; "1000+250/s" counts. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "fake.h"

static double loaded_at;

static double clock_seconds(clockid_t clock) {
    struct timespec now;
    clock_gettime(clock, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

__attribute__((constructor)) static void remember_start(void) { loaded_at = seconds_now(); }

double seconds_now(void) { return clock_seconds(CLOCK_REALTIME); }

long long monotonic_us(void) { return (long long)(clock_seconds(CLOCK_MONOTONIC) * 1e6); }

void sleep_us(long long microseconds) {
    struct timespec left = {microseconds / 1000000, microseconds % 1000000 * 1000};
    while (nanosleep(&left, &left) != 0) continue;
}

double value_at(const World *in, const Value *value, double when) {
    double elapsed = when - (in->epoch > 0 ? in->epoch : loaded_at);
    if (value->count == 0) return fmax(0, value->start + value->rate * elapsed);
    const Step *steps = in->steps + value->first;
    if (value->count == 1) return steps[0].value;
    double phase = elapsed - value->period * floor(elapsed / value->period);
    for (unsigned i = 0; i < value->count; i++) {
        if (phase < steps[i].seconds) return steps[i].value;
        phase -= steps[i].seconds;
    }
    return steps[value->count - 1].value;
}

/* Returns what is wrong with the text, or NULL. */
const char *parse_value(World *in, Value *value, const char *text) {
    char *rest;
    *value = (Value){.present = 1, .first = in->step_count};
    while (*text) {
        double number = strtod(text, &rest);
        if (rest == text) return "expected a number";
        double seconds = 1;
        if (*rest == '+' && value->count == 0) {
            value->start = number;
            text = rest + 1;
            value->rate = strtod(text, &rest);
            return rest == text || strcmp(rest, "/s") ? "expected START+RATE/s" : NULL;
        }
        if (*rest == 'x') {
            text = rest + 1;
            seconds = strtod(text, &rest);
            if (rest == text || !(seconds > 0)) return "expected VALUExSECONDS with more than 0 seconds";
        }
        if (*rest && *rest != ' ') return "expected a number, VALUExSECONDS …, or START+RATE/s";
        if (in->step_count == MOST_STEPS) return "too many steps in this scenario";
        in->steps[in->step_count++] = (Step){number, seconds};
        value->period += seconds;
        value->count++;
        text = rest + strspn(rest, " ");
    }
    return value->count ? NULL : "expected a value";
}
