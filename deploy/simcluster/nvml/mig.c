/* MIG: a GPU's mode and its instances, each a device of its own with few answers. */
#define _GNU_SOURCE
#include "stand_in.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

#define MAX_INSTANCES 8

/* The address of a cell is the handle of an instance. */
static char cells[MAX_GPUS][MAX_INSTANCES];

/* The `index`th profile of "1g.10gb,1g.10gb,..." as slices and gigabytes; 0 when there are fewer. */
static int profile(int slot, unsigned index, unsigned *slices, unsigned *gigabytes)
{
    char list[MAX_VALUE];
    const char *at = list;
    slot_text(slot, "mig.instances", list, sizeof list, "");
    for (; at && *at && index; index--)
        at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL;
    return at && sscanf(at, "%ug.%ugb", slices, gigabytes) == 2;
}

API int nvmlDeviceGetMigMode(device_t device, unsigned *current, unsigned *pending)
{
    PASS("GetMigMode");
    *current = (unsigned)slot_number(slot, "mig.current", 0);
    *pending = (unsigned)slot_number(slot, "mig.pending", *current);
    return OK;
}

API int nvmlDeviceGetMigDeviceHandleByIndex(device_t device, unsigned index, device_t *out)
{
    unsigned slices, gigabytes;
    PASS("GetMigDeviceHandleByIndex");
    *out = NULL;
    if (!slot_number(slot, "mig.current", 0))
        return NOT_SUPPORTED;
    if (index >= MAX_INSTANCES)
        return INVALID_ARGUMENT;
    if (!profile(slot, index, &slices, &gigabytes))
        return NOT_FOUND;
    *out = (device_t)(void *)&cells[slot][index];
    return OK;
}

/* The GPU and number of an instance's handle; 0 when it is none. */
static int instance(device_t device, int *slot, unsigned *index)
{
    uintptr_t at = (uintptr_t)device, first = (uintptr_t)cells;
    if (at < first || at >= first + sizeof cells)
        return 0;
    *slot = (int)((at - first) / MAX_INSTANCES);
    *index = (unsigned)((at - first) % MAX_INSTANCES);
    return 1;
}

API int nvmlDeviceIsMigDeviceHandle(device_t device, unsigned *out)
{
    int of;
    unsigned index;
    *out = 1;
    if (instance(device, &of, &index))
        return gate_is_open() ? OK : UNINITIALIZED;
    PASS("IsMigDeviceHandle");
    *out = 0;
    return OK;
}

struct attributes {
    unsigned multiprocessors, copy, decoder, encoder, jpeg, ofa, slices, compute_slices;
    unsigned long memory_mib;
};

API int nvmlDeviceGetAttributes_v2(device_t device, struct attributes *out)
{
    int of, same;
    unsigned index, slices, gigabytes;
    if (!instance(device, &of, &index)) {
        PASS("GetAttributes");
        return NOT_SUPPORTED;
    }
    int code = gate_device(slot_handle(of), "GetAttributes", &same);
    if (code != OK)
        return code;
    if (!profile(of, index, &slices, &gigabytes))
        return NOT_FOUND;
    memset(out, 0, sizeof *out);
    out->multiprocessors = 16 * slices;
    out->slices = out->compute_slices = slices;
    out->memory_mib = gigabytes * 1024UL - 128; /* a little is kept back, as on hardware */
    return OK;
}
