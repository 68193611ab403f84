/* Where a GPU sits on the board, what its links lead to, and its memory. */
#define _GNU_SOURCE
#include "stand_in.h"

#include <stdio.h>
#include <string.h>

#define MIB (1024ULL * 1024)

struct pci {
    char legacy[16];
    unsigned domain, bus, device, id, subsystem;
    char bdf[32];
};

static void fill_pci(struct pci *out, const char *bdf, unsigned id, unsigned subsystem)
{
    unsigned function = 0;
    memset(out, 0, sizeof *out);
    sscanf(bdf, "%x:%x:%x.%x", &out->domain, &out->bus, &out->device, &function);
    snprintf(out->legacy, sizeof out->legacy, "%04X:%02X:%02X.%X", out->domain & 0xffff, out->bus & 0xff,
             out->device & 0x1f, function & 7);
    snprintf(out->bdf, sizeof out->bdf, "%08X:%02X:%02X.%X", out->domain, out->bus & 0xff, out->device & 0x1f,
             function & 7);
    out->id = id;
    out->subsystem = subsystem;
}

API int nvmlDeviceGetPciInfo_v3(device_t device, struct pci *out)
{
    char bdf[MAX_VALUE];
    PASS("GetPciInfo");
    slot_bdf(slot, bdf, sizeof bdf);
    fill_pci(out, bdf, (unsigned)slot_number(slot, "pci_id", 0x233010de),
             (unsigned)slot_number(slot, "subsystem_id", 0x16c110de));
    return OK;
}

API int nvmlDeviceGetNvLinkRemotePciInfo_v2(device_t device, unsigned link, struct pci *out)
{
    static const char *const switches[] = {"0000:05:00.0", "0000:06:00.0", "0000:07:00.0", "0000:08:00.0"};
    /* Eighteen links go to four NVSwitches: four, five, five and four of them. */
    char field[64], bdf[MAX_VALUE];
    PASS("GetNvLinkRemotePciInfo");
    if ((long long)link >= slot_number(slot, "nvlink.count", 18))
        return INVALID_ARGUMENT;
    snprintf(field, sizeof field, "nvlink.%u.remote", link);
    slot_text(slot, field, bdf, sizeof bdf, switches[link < 4 ? 0 : link < 9 ? 1 : link < 14 ? 2 : 3]);
    fill_pci(out, bdf, 0x22a310de, 0x16c110de);
    return OK;
}

/* What the listed processes hold, unless the state file says otherwise. */
static unsigned long long used_memory(int slot)
{
    char list[MAX_VALUE];
    unsigned long long sum = 0;
    slot_text(slot, "processes", list, sizeof list, "");
    for (char *at = list; at && *at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL) {
        unsigned long long bytes = 0;
        sscanf(at, "%*u:%llu", &bytes);
        sum += bytes;
    }
    return (unsigned long long)slot_number(slot, "memory.used", (long long)sum);
}

struct memory {
    unsigned long long total, free, used;
};

API int nvmlDeviceGetMemoryInfo(device_t device, struct memory *out)
{
    PASS("GetMemoryInfo");
    out->total = (unsigned long long)slot_number(slot, "memory.total", 81559 * MIB);
    out->used = used_memory(slot) + (unsigned long long)slot_number(slot, "memory.reserved", 480 * MIB);
    out->free = out->total - out->used;
    return OK;
}

struct memory_v2 {
    unsigned version;
    unsigned long long total, reserved, free, used;
};

API int nvmlDeviceGetMemoryInfo_v2(device_t device, struct memory_v2 *out)
{
    PASS("GetMemoryInfo");
    if (out->version != 0x2000028)
        return ARGUMENT_VERSION_MISMATCH;
    out->total = (unsigned long long)slot_number(slot, "memory.total", 81559 * MIB);
    out->reserved = (unsigned long long)slot_number(slot, "memory.reserved", 480 * MIB);
    out->used = used_memory(slot);
    out->free = out->total - out->used - out->reserved;
    return OK;
}

long long replays(int slot)
{
    return slot_number(slot, "pcie.replay", 0) + slot_number(slot, "pcie.replay_rate", 0) * state_age() / 60000000000LL;
}

API int nvmlDeviceGetPcieReplayCounter(device_t device, unsigned *out)
{
    PASS("GetPcieReplayCounter");
    *out = (unsigned)replays(slot);
    return OK;
}
