/* What a GPU says of itself: texts, modes, sensors, clocks and PCIe link. */
#define _GNU_SOURCE
#include "stand_in.h"

#include <stdio.h>

/* nvmlDevice<symbol>(device, char *out, size) answers `field`. */
#define TEXT(symbol, field, usual)                                            \
    API int nvmlDevice##symbol(device_t device, char *out, unsigned size)     \
    {                                                                         \
        char value[MAX_VALUE];                                                \
        PASS(#symbol);                                                        \
        slot_text(slot, field, value, sizeof value, usual);                   \
        return copy_text(value, out, size);                                   \
    }

#define UNSUPPORTED(symbol, call, ...)                       \
    API int nvmlDevice##symbol(device_t device, __VA_ARGS__) \
    {                                                        \
        PASS(call);                                          \
        return NOT_SUPPORTED;                                \
    }

TEXT(GetName, "name", "NVIDIA H100 80GB HBM3")
TEXT(GetBoardPartNumber, "board_part", "692-2G520-0200-000")
TEXT(GetVbiosVersion, "vbios", "96.00.99.00.01")
TEXT(GetInforomImageVersion, "inforom", "G520.0200.00.05")

API int nvmlDeviceGetSerial(device_t device, char *out, unsigned size)
{
    char value[MAX_VALUE], usual[32];
    PASS("GetSerial");
    snprintf(usual, sizeof usual, "SIM%010d", slot + 1);
    slot_text(slot, "serial", value, sizeof value, usual);
    return copy_text(value, out, size);
}

API int nvmlDeviceGetUUID(device_t device, char *out, unsigned size)
{
    char value[MAX_VALUE];
    PASS("GetUUID");
    slot_uuid(slot, value, sizeof value);
    return copy_text(value, out, size);
}

API int nvmlDeviceGetGspFirmwareVersion(device_t device, char *out)
{
    char value[MAX_VALUE];
    PASS("GetGspFirmwareVersion");
    slot_text(slot, "gsp", value, sizeof value, "580.95.05");
    return copy_text(value, out, 64);
}

API int nvmlDeviceGetGspFirmwareMode(device_t device, unsigned *enabled, unsigned *usual)
{
    PASS("GetGspFirmwareMode");
    *enabled = (unsigned)slot_number(slot, "gsp.mode", 1);
    *usual = (unsigned)slot_number(slot, "gsp.default", 1);
    return OK;
}

SCALAR(GetMinorNumber, "GetMinorNumber", unsigned, "minor", slot)
SCALAR(GetBrand, "GetBrand", unsigned, "brand", 14)
SCALAR(GetArchitecture, "GetArchitecture", unsigned, "architecture", 9)
SCALAR(GetPersistenceMode, "GetPersistenceMode", unsigned, "persistence", 1)
SCALAR(GetComputeMode, "GetComputeMode", unsigned, "compute_mode", 0)
SCALAR(GetPerformanceState, "GetPerformanceState", unsigned, "pstate", 0)
SCALAR(GetMaxMigDeviceCount, "GetMaxMigDeviceCount", unsigned, "mig.max", 7)
SCALAR(GetPowerUsage, "GetPowerUsage", unsigned, "power", 68570 + 310 * slot)
SCALAR(GetEnforcedPowerLimit, "GetEnforcedPowerLimit", unsigned, "power.limit", 700000)
SCALAR(GetPowerManagementLimit, "GetPowerManagementLimit", unsigned, "power.limit", 700000)
SCALAR(GetPowerManagementDefaultLimit, "GetPowerManagementDefaultLimit", unsigned, "power.default", 700000)
SCALAR(GetTotalEnergyConsumption, "GetTotalEnergyConsumption", unsigned long long, "energy", 4815162342LL)
SCALAR(GetCurrPcieLinkGeneration, "GetCurrPcieLinkGeneration", unsigned, "pcie.generation", 5)
SCALAR(GetCurrPcieLinkWidth, "GetCurrPcieLinkWidth", unsigned, "pcie.width", 16)
SCALAR(GetMaxPcieLinkGeneration, "GetMaxPcieLinkGeneration", unsigned, "pcie.max_generation", 5)
SCALAR(GetGpuMaxPcieLinkGeneration, "GetGpuMaxPcieLinkGeneration", unsigned, "pcie.max_generation", 5)
SCALAR(GetMaxPcieLinkWidth, "GetMaxPcieLinkWidth", unsigned, "pcie.max_width", 16)
/* Hopper remaps rows; pages are retired on older boards only. */
UNSUPPORTED(GetRetiredPages, "GetRetiredPages", int cause, unsigned *count, void *pages)
UNSUPPORTED(GetRetiredPages_v2, "GetRetiredPages", int cause, unsigned *count, void *pages, void *times)
UNSUPPORTED(GetRetiredPagesPendingStatus, "GetRetiredPagesPendingStatus", unsigned *out)

API int nvmlDeviceGetNumaNodeId(device_t device, unsigned *out)
{
    long long node;
    PASS("GetNumaNodeId");
    if (!slot_has(slot, "numa_node", &node))
        return NOT_SUPPORTED; /* only GPUs whose memory is a NUMA node of its own answer */
    *out = (unsigned)node;
    return OK;
}

API int nvmlDeviceGetCudaComputeCapability(device_t device, int *major, int *minor)
{
    PASS("GetCudaComputeCapability");
    *major = (int)slot_number(slot, "cuda.major", 9);
    *minor = (int)slot_number(slot, "cuda.minor", 0);
    return OK;
}

API int nvmlDeviceGetPowerManagementLimitConstraints(device_t device, unsigned *least, unsigned *most)
{
    PASS("GetPowerManagementLimitConstraints");
    *least = (unsigned)slot_number(slot, "power.min", 200000);
    *most = (unsigned)slot_number(slot, "power.max", 700000);
    return OK;
}

API int nvmlDeviceGetTemperature(device_t device, int sensor, unsigned *out)
{
    PASS("GetTemperature");
    if (sensor != 0)
        return INVALID_ARGUMENT;
    *out = (unsigned)slot_number(slot, "temperature", 29 + slot % 4);
    return OK;
}

/* Degrees left to the temperature at which the GPU begins to slow down; below 0 it does. */
struct margin {
    unsigned version;
    int left;
};

API int nvmlDeviceGetMarginTemperature(device_t device, struct margin *out)
{
    PASS("GetMarginTemperature");
    if (out->version != 0x1000008)
        return ARGUMENT_VERSION_MISMATCH;
    out->left = (int)slot_number(slot, "tlimit.now", slot_number(slot, "temperature.threshold.3", 87) -
                                                         slot_number(slot, "temperature", 29 + slot % 4));
    return OK;
}

struct temperature {
    unsigned version;
    int sensor, celsius;
};

API int nvmlDeviceGetTemperatureV(device_t device, struct temperature *out)
{
    PASS("GetTemperature");
    if (out->version != 0x100000c)
        return ARGUMENT_VERSION_MISMATCH;
    if (out->sensor != 0)
        return INVALID_ARGUMENT;
    out->celsius = (int)slot_number(slot, "temperature", 29 + slot % 4);
    return OK;
}

API int nvmlDeviceGetTemperatureThreshold(device_t device, unsigned kind, unsigned *out)
{
    static const int usual[] = {95, 89, 95, 87}; /* shutdown, slowdown, memory, GPU maximum; degrees Celsius */
    char field[64];
    PASS("GetTemperatureThreshold");
    if (kind >= sizeof usual / sizeof *usual)
        return NOT_SUPPORTED;
    snprintf(field, sizeof field, "temperature.threshold.%u", kind);
    *out = (unsigned)slot_number(slot, field, usual[kind]);
    return OK;
}
