/* NVML field values: the same facts by number, and the recovery action that only a field tells. */
#define _GNU_SOURCE
#include "stand_in.h"

#include <stdint.h>
#include <stdio.h>
#include <time.h>

struct field_value {
    unsigned id, scope;
    int64_t timestamp, latency;
    int type, code;
    union {
        unsigned number;
        unsigned long long large;
        int whole;
    } value;
};

enum { UNSIGNED = 1, UNSIGNED_LONG_LONG = 3, SIGNED = 5 };

static long long all_links(int slot, const char *kind)
{
    long long sum = 0;
    for (unsigned link = 0; !no_such_link(slot, link); link++)
        sum += link_errors(slot, link, kind);
    return sum;
}

/* A field that is no plain number of the state file; 0 when it is not known here either. */
static int computed_field(int slot, struct field_value *out, long long *value)
{
    switch (out->id) {
    case 3: case 4: case 5: case 6: { /* ECC totals: corrected or not, volatile or aggregate */
        int uncorrected = out->id % 2 == 0, aggregate = out->id > 4;
        *value = ecc_count(slot, uncorrected, aggregate, "dram") + ecc_count(slot, uncorrected, aggregate, "sram");
        break;
    }
    case 29: case 30: case 31: { /* retired pages, which only boards that cannot remap rows have */
        static const char *const names[] = {"retired.single", "retired.double", "retired.pending"};
        long long any = 0;
        if (!slot_has(slot, names[0], &any) && !slot_has(slot, names[1], &any) && !slot_has(slot, names[2], &any))
            return 0;
        *value = slot_number(slot, names[out->id - 29], 0);
        out->type = UNSIGNED_LONG_LONG;
        return 1;
    }
    case 38: case 45: *value = all_links(slot, "crc"); break;
    case 74: *value = slowed_for(slot, 0x4, "slowed.power_cap"); break;
    case 76: *value = slowed_for(slot, 0x10, "slowed.sync"); break;
    case 94: *value = replays(slot); break;
    case 269: *value = slowed_for(slot, 0x20, "slowed.sw_thermal"); break;
    case 270: *value = slowed_for(slot, 0x40, "slowed.hw_thermal"); break;
    case 271: *value = slowed_for(slot, 0x80, "slowed.brake"); break;
    case 52: *value = all_links(slot, "replay"); break;
    case 59: *value = all_links(slot, "recovery"); break;
    case 161: *value = link_errors(slot, out->scope, "replay"); break;
    case 162: *value = link_errors(slot, out->scope, "recovery"); break;
    case 163: *value = link_errors(slot, out->scope, "crc"); break;
    case 164: /* MB/s of a link that is up */
        *value = link_number(slot, out->scope, "state", 1) ? link_number(slot, out->scope, "speed", 26562) : 0;
        break;
    case 165: *value = link_number(slot, out->scope, "state", 1); break;
    default: return 0;
    }
    int of_link = out->id >= 161 && out->id <= 165;
    if (of_link && no_such_link(slot, out->scope))
        out->code = INVALID_ARGUMENT;
    out->type = out->id == 94 || out->id == 164 || out->id == 165 ? UNSIGNED : UNSIGNED_LONG_LONG;
    return 1;
}

static const struct { unsigned id; int type; const char *field; long long usual; } plain_fields[] = {
    {1, UNSIGNED, "ecc.current", 1},        {2, UNSIGNED, "ecc.pending", 1},
    {82, UNSIGNED, "temperature.memory", 37}, {90, UNSIGNED, "nvlink.speed", 26562},
    {91, UNSIGNED, "nvlink.count", 18},
    {142, UNSIGNED, "remap.correctable", 0}, {143, UNSIGNED, "remap.uncorrectable", 0},
    {144, UNSIGNED, "remap.pending", 0},    {145, UNSIGNED, "remap.failure", 0},
    {166, UNSIGNED, "nvlink.version", 6},   {185, UNSIGNED, "power", 68570},
    {186, UNSIGNED, "power", 68920},        {187, UNSIGNED, "power.min", 200000},
    {188, UNSIGNED, "power.max", 700000},   {189, UNSIGNED, "power.default", 700000},
    {190, UNSIGNED, "power.limit", 700000}, {193, SIGNED, "tlimit.shutdown", -8},
    {194, SIGNED, "tlimit.slowdown", -2},   {195, SIGNED, "tlimit.memory", 0},
    {196, SIGNED, "tlimit.gpu", 0},         {230, UNSIGNED, "recovery_action", 0},
};

static void answer(int slot, struct field_value *out)
{
    char key[64];
    long long value = 0;
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    out->timestamp = now.tv_sec * 1000000LL + now.tv_nsec / 1000;
    out->latency = 0;
    out->code = OK;
    out->value.large = 0;
    snprintf(key, sizeof key, "field.%u.error", out->id);
    if (slot_has(slot, key, &value)) {
        out->code = (int)value;
        return;
    }
    int known = computed_field(slot, out, &value);
    for (size_t i = 0; !known && i < sizeof plain_fields / sizeof *plain_fields; i++)
        if (plain_fields[i].id == out->id) {
            value = slot_number(slot, plain_fields[i].field, plain_fields[i].usual);
            out->type = plain_fields[i].type;
            known = 1;
        }
    /* Any other field by its number, of one link or of the whole GPU. */
    for (int scoped = 1; !known && scoped >= 0; scoped--) {
        if (scoped)
            snprintf(key, sizeof key, "nvlink.%u.field.%u", out->scope, out->id);
        else
            snprintf(key, sizeof key, "field.%u", out->id);
        known = slot_has(slot, key, &value);
        out->type = UNSIGNED_LONG_LONG;
    }
    if (!known)
        out->code = NOT_SUPPORTED;
    else if (out->type == UNSIGNED_LONG_LONG)
        out->value.large = (unsigned long long)value;
    else
        out->value.whole = (int)value;
}

API int nvmlDeviceGetFieldValues(device_t device, int count, struct field_value *values)
{
    PASS("GetFieldValues");
    if (count < 1 || !values)
        return INVALID_ARGUMENT;
    for (int i = 0; i < count; i++)
        answer(slot, &values[i]);
    return OK;
}
