/* Calls about the driver and the enumeration of GPUs. */
#define _GNU_SOURCE
#include "stand_in.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

API int nvmlInitWithFlags(unsigned flags)
{
    (void)flags;
    state_locate();
    if (!state_readable())
        return DRIVER_NOT_LOADED;
    int code = gate_system("Init");
    if (code == OK)
        gate_opened(1);
    return code;
}

API int nvmlInit_v2(void)
{
    return nvmlInitWithFlags(0);
}

API int nvmlInit(void)
{
    return nvmlInitWithFlags(0);
}

API int nvmlShutdown(void)
{
    int code = gate_system("Shutdown");
    if (code == OK)
        gate_opened(-1);
    return code;
}

static int version(const char *call, const char *key, const char *usual, char *out, unsigned size)
{
    char text[MAX_VALUE];
    int code = gate_system(call);
    if (code != OK)
        return code;
    if (!state_text(key, text, sizeof text))
        snprintf(text, sizeof text, "%s", usual);
    return copy_text(text, out, size);
}

API int nvmlSystemGetDriverVersion(char *out, unsigned size)
{
    return version("SystemGetDriverVersion", "driver", "580.95.05", out, size);
}

API int nvmlSystemGetNVMLVersion(char *out, unsigned size)
{
    return version("SystemGetNVMLVersion", "nvml", "13.580.95.05", out, size);
}

API int nvmlSystemGetCudaDriverVersion_v2(int *out)
{
    long long cuda = 13000;
    int code = gate_system("SystemGetCudaDriverVersion");
    if (code == OK) {
        state_number("cuda", &cuda);
        *out = (int)cuda;
    }
    return code;
}

API int nvmlSystemGetCudaDriverVersion(int *out)
{
    return nvmlSystemGetCudaDriverVersion_v2(out);
}

API int nvmlDeviceGetCount_v2(unsigned *out)
{
    int code = gate_system("GetCount");
    if (code != OK)
        return code;
    *out = 0;
    for (int slot = 0; slot < slot_count(); slot++)
        *out += !slot_absent(slot);
    return OK;
}

/* A lost GPU gives its error already when its handle is asked for, as the real library does. */
static int hand_out(int slot, const char *call, device_t *out)
{
    int checked;
    int code = gate_device(slot_handle(slot), call, &checked);
    if (code == OK)
        *out = slot_handle(slot);
    return code;
}

API int nvmlDeviceGetHandleByIndex_v2(unsigned index, device_t *out)
{
    if (!gate_is_open())
        return UNINITIALIZED;
    for (int slot = 0; slot < slot_count(); slot++)
        if (!slot_absent(slot) && index-- == 0)
            return hand_out(slot, "GetHandleByIndex", out);
    return INVALID_ARGUMENT;
}

API int nvmlDeviceGetHandleByUUID(const char *uuid, device_t *out)
{
    char own[MAX_VALUE];
    if (!gate_is_open())
        return UNINITIALIZED;
    if (!uuid)
        return INVALID_ARGUMENT;
    for (int slot = 0; slot < slot_count(); slot++) {
        slot_uuid(slot, own, sizeof own);
        if (!slot_absent(slot) && strcmp(own, uuid) == 0)
            return hand_out(slot, "GetHandleByUUID", out);
    }
    return NOT_FOUND;
}

API int nvmlDeviceGetHandleByPciBusId_v2(const char *bdf, device_t *out)
{
    char own[MAX_VALUE];
    if (!gate_is_open())
        return UNINITIALIZED;
    if (!bdf)
        return INVALID_ARGUMENT;
    for (int slot = 0; slot < slot_count(); slot++) {
        slot_bdf(slot, own, sizeof own);
        /* The caller may write the domain with four or eight digits. */
        size_t extra = strlen(bdf) > strlen(own) ? strlen(bdf) - strlen(own) : 0;
        if (!slot_absent(slot) && strspn(bdf, "0") >= extra && strcasecmp(own, bdf + extra) == 0)
            return hand_out(slot, "GetHandleByPciBusId", out);
    }
    return NOT_FOUND;
}

API int nvmlDeviceGetIndex(device_t device, unsigned *out)
{
    int slot, code = gate_device(device, "GetIndex", &slot);
    if (code != OK)
        return code;
    *out = 0;
    for (int before = 0; before < slot; before++)
        *out += !slot_absent(before);
    return OK;
}

API const char *nvmlErrorString(int code)
{
    static const struct { int code; const char *text; } known[] = {
        {0, "Success"}, {1, "Uninitialized"}, {2, "Invalid Argument"}, {3, "Not Supported"},
        {4, "Insufficient Permissions"}, {6, "Not Found"}, {7, "Insufficient Size"}, {9, "Driver Not Loaded"},
        {10, "Timeout"}, {11, "Interrupt Request Issue"}, {12, "NVML Shared Library Not Found"},
        {13, "Function Not Found"}, {14, "Corrupted infoROM"}, {15, "GPU is lost"}, {16, "GPU requires reset"},
        {17, "GPU access blocked by the operating system"}, {18, "Driver/library version mismatch"},
        {19, "In use by another client"}, {20, "Insufficient Memory"}, {25, "Argument version mismatch"},
        {27, "Not Ready"}, {28, "GPU not found"}, {999, "Unknown Error"},
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (known[i].code == code)
            return known[i].text;
    return "Unknown Error";
}
