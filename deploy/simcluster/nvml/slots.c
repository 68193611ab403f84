/* The GPUs of the node and their defaults: eight H100 80GB SXM on an HGX board. */
#define _GNU_SOURCE
#include "stand_in.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

static struct slot slots[MAX_GPUS];

static const unsigned char buses[] = {0x19, 0x3b, 0x4c, 0x5d, 0x9b, 0xbb, 0xcb, 0xdb};

/* Minor numbers follow probe order, NVML indices follow the PCI address: the two differ on real boards, too. */
static const unsigned char minors[] = {3, 1, 0, 2, 7, 5, 4, 6};

int slot_count(void)
{
    long long count = 8;
    state_number("count", &count);
    return count < 0 ? 0 : count > MAX_GPUS ? MAX_GPUS : (int)count;
}

device_t slot_handle(int slot)
{
    slots[slot].number = slot;
    return &slots[slot];
}

int slot_of(device_t device)
{
    uintptr_t at = (uintptr_t)device, first = (uintptr_t)slots;
    if (at < first || at >= first + sizeof slots || (at - first) % sizeof *slots != 0)
        return -1;
    int slot = (int)((at - first) / sizeof *slots);
    return slot < slot_count() ? slot : -1;
}

static int slot_value(int slot, const char *field, char *value, size_t size)
{
    char key[320];
    snprintf(key, sizeof key, "gpu.%d.%s", slot, field);
    if (state_text(key, value, size))
        return 1;
    snprintf(key, sizeof key, "gpu.*.%s", field);
    return state_text(key, value, size);
}

int slot_has(int slot, const char *field, long long *value)
{
    char key[320];
    snprintf(key, sizeof key, "gpu.%d.%s", slot, field);
    if (state_number(key, value))
        return 1;
    snprintf(key, sizeof key, "gpu.*.%s", field);
    return state_number(key, value);
}

long long slot_number(int slot, const char *field, long long fallback)
{
    if (!slot_has(slot, field, &fallback) && strcmp(field, "minor") == 0 && slot < (int)sizeof minors)
        return minors[slot];
    return fallback;
}

void slot_text(int slot, const char *field, char *value, size_t size, const char *fallback)
{
    if (!slot_value(slot, field, value, size))
        snprintf(value, size, "%s", fallback);
}

int slot_absent(int slot)
{
    return slot_number(slot, "absent", 0) != 0;
}

long long link_number(int slot, unsigned link, const char *field, long long fallback)
{
    char key[128];
    snprintf(key, sizeof key, "nvlink.%u.%s", link, field);
    if (slot_has(slot, key, &fallback))
        return fallback;
    snprintf(key, sizeof key, "nvlink.*.%s", field);
    return slot_number(slot, key, fallback);
}

void slot_bdf(int slot, char *value, size_t size)
{
    char usual[32];
    snprintf(usual, sizeof usual, "0000:%02x:00.0", slot < (int)sizeof buses ? buses[slot] : 0xe0u + (unsigned)slot);
    slot_text(slot, "bdf", value, size, usual);
}

void slot_uuid(int slot, char *value, size_t size)
{
    char usual[64];
    snprintf(usual, sizeof usual, "GPU-51a00000-0000-4000-8000-%012x", slot);
    slot_text(slot, "uuid", value, size, usual);
}

int copy_text(const char *text, char *out, unsigned size)
{
    if (!out)
        return INVALID_ARGUMENT;
    if (strlen(text) + 1 > size)
        return INSUFFICIENT_SIZE;
    memcpy(out, text, strlen(text) + 1);
    return OK;
}

long long ecc_count(int slot, int uncorrected, int aggregate, const char *place)
{
    char key[96];
    snprintf(key, sizeof key, "ecc.%s.%s.%s", uncorrected ? "uncorrected" : "corrected",
             aggregate ? "aggregate" : "volatile", place);
    return slot_number(slot, key, 0);
}

long long link_errors(int slot, unsigned link, const char *kind)
{
    char key[64];
    snprintf(key, sizeof key, "error.%s", kind);
    return link_number(slot, link, key, 0);
}
