/* What tells a sound GPU from a faulty one: ECC, row remapping, NVLink, fabric, processes. */
#define _GNU_SOURCE
#include "stand_in.h"

#include <stdio.h>
#include <string.h>

API int nvmlDeviceGetEccMode(device_t device, unsigned *current, unsigned *pending)
{
    PASS("GetEccMode");
    *current = (unsigned)slot_number(slot, "ecc.current", 1);
    *pending = (unsigned)slot_number(slot, "ecc.pending", *current);
    return OK;
}

API int nvmlDeviceGetTotalEccErrors(device_t device, unsigned uncorrected, unsigned aggregate, unsigned long long *out)
{
    PASS("GetTotalEccErrors");
    if (uncorrected > 1 || aggregate > 1)
        return INVALID_ARGUMENT;
    *out = (unsigned long long)(ecc_count(slot, (int)uncorrected, (int)aggregate, "dram") +
                                ecc_count(slot, (int)uncorrected, (int)aggregate, "sram"));
    return OK;
}

API int nvmlDeviceGetMemoryErrorCounter(device_t device, unsigned uncorrected, unsigned aggregate, unsigned place,
                                        unsigned long long *out)
{
    PASS("GetMemoryErrorCounter");
    if (uncorrected > 1 || aggregate > 1)
        return INVALID_ARGUMENT;
    if (place != 2 && place != 7) /* Hopper counts DRAM and SRAM, not the single caches */
        return NOT_SUPPORTED;
    *out = (unsigned long long)ecc_count(slot, (int)uncorrected, (int)aggregate, place == 2 ? "dram" : "sram");
    return OK;
}

/* Of the uncorrected errors in SRAM those that parity found; the code found the others. */
static unsigned long long parity_of(int slot, int aggregate)
{
    char key[64];
    snprintf(key, sizeof key, "ecc.uncorrected.%s.parity", aggregate ? "aggregate" : "volatile");
    long long parity = slot_number(slot, key, 0), all = ecc_count(slot, 1, aggregate, "sram");
    return (unsigned long long)(parity < all ? parity : all);
}

struct sram_status {
    unsigned version;
    unsigned long long parity, secded, corrected, new_parity, new_secded, new_corrected, l2, sm, pcie, mcu, other;
    unsigned threshold_exceeded;
};

API int nvmlDeviceGetSramEccErrorStatus(device_t device, struct sram_status *out)
{
    PASS("GetSramEccErrorStatus");
    if (out->version != 0x1000068)
        return ARGUMENT_VERSION_MISMATCH;
    memset(&out->parity, 0, sizeof *out - offsetof(struct sram_status, parity));
    out->parity = parity_of(slot, 1);
    out->secded = (unsigned long long)ecc_count(slot, 1, 1, "sram") - out->parity;
    out->corrected = (unsigned long long)ecc_count(slot, 0, 1, "sram");
    out->new_parity = parity_of(slot, 0);
    out->new_secded = (unsigned long long)ecc_count(slot, 1, 0, "sram") - out->new_parity;
    out->new_corrected = (unsigned long long)ecc_count(slot, 0, 0, "sram");
    out->threshold_exceeded = (unsigned)slot_number(slot, "ecc.sram_threshold", 0);
    return OK;
}

API int nvmlDeviceGetRemappedRows(device_t device, unsigned *corrected, unsigned *uncorrected, unsigned *pending,
                                  unsigned *failure)
{
    PASS("GetRemappedRows");
    *corrected = (unsigned)slot_number(slot, "remap.correctable", 0);
    *uncorrected = (unsigned)slot_number(slot, "remap.uncorrectable", 0);
    *pending = (unsigned)slot_number(slot, "remap.pending", 0);
    *failure = (unsigned)slot_number(slot, "remap.failure", 0);
    return OK;
}

struct repair {
    unsigned version, channel, tpc;
};

API int nvmlDeviceGetRepairStatus(device_t device, struct repair *out)
{
    PASS("GetRepairStatus");
    if (out->version != 0x100000c)
        return ARGUMENT_VERSION_MISMATCH;
    out->channel = (unsigned)slot_number(slot, "repair.channel", 0);
    out->tpc = (unsigned)slot_number(slot, "repair.tpc", 0);
    return OK;
}

struct unrepairable {
    unsigned version, flag;
};

API int nvmlDeviceGetUnrepairableMemoryFlag_v1(device_t device, struct unrepairable *out)
{
    PASS("GetUnrepairableMemoryFlag");
    if (out->version != 0x1000008)
        return ARGUMENT_VERSION_MISMATCH;
    out->flag = (unsigned)slot_number(slot, "repair.impossible", 0);
    return OK;
}

API int nvmlDeviceGetRowRemapperHistogram(device_t device, unsigned out[5])
{
    static const char *const fields[] = {"max", "high", "partial", "low", "none"};
    char field[64];
    PASS("GetRowRemapperHistogram");
    for (int i = 0; i < 5; i++) {
        snprintf(field, sizeof field, "remap.histogram.%s", fields[i]);
        out[i] = (unsigned)slot_number(slot, field, i == 0 ? 2560 : 0);
    }
    return OK;
}

API int nvmlDeviceValidateInforom(device_t device)
{
    PASS("ValidateInforom");
    return slot_number(slot, "inforom.valid", 1) ? OK : CORRUPTED_INFOROM;
}

int no_such_link(int slot, unsigned link)
{
    return (long long)link >= slot_number(slot, "nvlink.count", 18);
}

API int nvmlDeviceGetNvLinkState(device_t device, unsigned link, unsigned *out)
{
    PASS("GetNvLinkState");
    if (no_such_link(slot, link))
        return INVALID_ARGUMENT;
    *out = (unsigned)link_number(slot, link, "state", 1);
    return OK;
}

API int nvmlDeviceGetNvLinkVersion(device_t device, unsigned link, unsigned *out)
{
    PASS("GetNvLinkVersion");
    if (no_such_link(slot, link))
        return INVALID_ARGUMENT;
    *out = (unsigned)slot_number(slot, "nvlink.version", 6); /* 4.0 */
    return OK;
}

API int nvmlDeviceGetNvLinkErrorCounter(device_t device, unsigned link, unsigned kind, unsigned long long *out)
{
    static const char *const kinds[] = {"replay", "recovery", "crc"};
    PASS("GetNvLinkErrorCounter");
    if (no_such_link(slot, link) || kind > 4)
        return INVALID_ARGUMENT;
    if (kind > 2)
        return NOT_SUPPORTED;
    *out = (unsigned long long)link_errors(slot, link, kinds[kind]);
    return OK;
}

struct fabric {
    unsigned char uuid[16];
    int status;
    unsigned clique;
    unsigned char state;
};

struct fabric_versioned {
    unsigned version;
    unsigned char uuid[16];
    int status;
    unsigned clique;
    unsigned char state;
    unsigned health;
    unsigned char summary; /* from version 3 on */
};

API int nvmlDeviceGetGpuFabricInfo(device_t device, struct fabric *out)
{
    PASS("GetGpuFabricInfo");
    memset(out->uuid, 0, sizeof out->uuid);
    out->status = (int)slot_number(slot, "fabric.status", 0);
    out->clique = (unsigned)slot_number(slot, "fabric.clique", 0);
    out->state = (unsigned char)slot_number(slot, "fabric.state", 3); /* completed */
    return OK;
}

API int nvmlDeviceGetGpuFabricInfoV(device_t device, struct fabric_versioned *out)
{
    PASS("GetGpuFabricInfo");
    if (out->version != 0x2000024 && out->version != 0x3000028)
        return ARGUMENT_VERSION_MISMATCH;
    memset(out->uuid, 0, sizeof out->uuid);
    out->status = (int)slot_number(slot, "fabric.status", 0);
    out->clique = (unsigned)slot_number(slot, "fabric.clique", 0);
    out->state = (unsigned char)slot_number(slot, "fabric.state", 3);
    out->health = (unsigned)slot_number(slot, "fabric.health", 0); /* H100 does not say */
    if (out->version == 0x3000028)
        out->summary = (unsigned char)slot_number(slot, "fabric.summary", 0);
    return OK;
}

struct process {
    unsigned pid;
    unsigned long long bytes;
    unsigned gpu_instance, compute_instance;
};

static int processes(device_t device, const char *call, const char *field, unsigned *count, struct process *out)
{
    char list[MAX_VALUE];
    unsigned found = 0, room;
    PASS(call);
    if (!count)
        return INVALID_ARGUMENT;
    room = out ? *count : 0;
    slot_text(slot, field, list, sizeof list, "");
    for (char *at = list; at && *at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL) {
        struct process one = {0, 0, 0xffffffffu, 0xffffffffu};
        if (sscanf(at, "%u:%llu", &one.pid, &one.bytes) < 1)
            continue;
        if (found < room)
            out[found] = one;
        found++;
    }
    *count = found;
    return found > room ? INSUFFICIENT_SIZE : OK;
}

#define PROCESSES(symbol, call, field)                                                       \
    API int nvmlDevice##symbol(device_t device, unsigned *count, struct process *out)        \
    {                                                                                        \
        return processes(device, call, field, count, out);                                   \
    }

PROCESSES(GetComputeRunningProcesses_v3, "GetComputeRunningProcesses", "processes")
PROCESSES(GetComputeRunningProcesses_v2, "GetComputeRunningProcesses", "processes")
PROCESSES(GetGraphicsRunningProcesses_v3, "GetGraphicsRunningProcesses", "graphics")
PROCESSES(GetMPSComputeRunningProcesses_v3, "GetMPSComputeRunningProcesses", "mps")
