/*
 * A stand-in for libcuda.so.1 beside the one for NVML, with the same state file: how CUDA starts and how many devices
 * it sees, nothing else. Everything it says is simulated.
 *
 *   call.cuInit.error 999              cuInit gives this result
 *   call.cuInit.hang 1                 cuInit does not return; with hang.uninterruptible it sits in D state
 *   call.cuInit.latency 40             microseconds it takes
 *   cuda.count 7                       devices, else those that are there and not lost
 *
 * Without such a key it follows from the rest, as on hardware: no driver or no GPU: 100, another driver: 803, a GPU
 * whose fabric is not completed: 802.
 */
#define _GNU_SOURCE
#include "stand_in.h"

enum { NO_DEVICE = 100, NOT_INITIALIZED = 3, SYSTEM_NOT_READY = 802, SYSTEM_DRIVER_MISMATCH = 803 };
enum { FABRIC_NOT_SUPPORTED = 0, FABRIC_COMPLETED = 3, LIB_RM_VERSION_MISMATCH = 18 };

static int initialized;

static int devices(void)
{
    long long count, error;
    if (state_number("cuda.count", &count))
        return (int)count;
    count = 0;
    for (int slot = 0; slot < slot_count(); slot++)
        count += !slot_absent(slot) && !(slot_has(slot, "error", &error) && error);
    return (int)count;
}

static int fabric_ready(void)
{
    for (int slot = 0; slot < slot_count(); slot++) {
        long long state = slot_number(slot, "fabric.state", FABRIC_COMPLETED);
        if (!slot_absent(slot) && state != FABRIC_NOT_SUPPORTED && state != FABRIC_COMPLETED)
            return 0;
    }
    return 1;
}

API int cuInit(unsigned flags)
{
    long long error = 0;
    state_locate();
    if (!state_readable())
        return NO_DEVICE;
    int code = gate_once("cuInit");
    if (code != OK)
        return code;
    if (state_number("init.error", &error) && error)
        return error == LIB_RM_VERSION_MISMATCH ? SYSTEM_DRIVER_MISMATCH : NO_DEVICE;
    if (!fabric_ready())
        return SYSTEM_NOT_READY;
    if (devices() == 0)
        return NO_DEVICE;
    initialized = 1;
    return 0;
}

API int cuDeviceGetCount(int *count)
{
    if (!initialized)
        return NOT_INITIALIZED;
    *count = devices();
    return 0;
}
