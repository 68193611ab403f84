/*
 * A stand-in for libnvidia-ml.so.1: answers from a state file, so that the code that reads NVML runs unchanged
 * on a machine without GPUs. Everything it says is simulated.
 *
 * State file: NODEVET_SIM_NVML at nvmlInit, else nvml.state beside this library. It is looked at on every call and
 * read again when its inode, size or time has changed; a writer replaces it by rename. Without it: driver not loaded.
 *
 * Grammar: one `key value` a line; the value is the rest of the line; '#' starts a comment line. The last line of a
 * key counts.  N is a GPU's slot (its NVML index while no slot before it is absent), '*' in its place means every GPU,
 * L a link (or '*'), CALL the function's name without nvml, nvmlDevice and version suffix (Init, SystemGetDriverVersion,
 * GetCount, GetHandleByIndex, GetTemperature, GetFieldValues, ...).
 *
 *   count 8                            slots
 *   driver 580.95.05, nvml 13.580.95.05, cuda 13000
 *   init.error 18                      nvmlInit gives this code; init.hang 1: it does not return
 *   call.CALL.error 999                the call gives this code, for every GPU
 *   call.CALL.hang 1                   the call does not return while this stands
 *                                      (a hang ends with code 999 when the state file has been gone for a second)
 *   call.CALL.latency 40               microseconds a call takes (there is a table of defaults); latency.scale 0: none
 *   hang.uninterruptible 1             the caller hangs in D state: SIGTERM waits until the hang ends
 *   gpu.N.error 15                     every call on this GPU gives this code, the look-up of its handle too
 *   gpu.N.hang 1                       every call on this GPU hangs
 *   gpu.N.call.CALL.error|hang|latency the same for one call on one GPU
 *   gpu.N.absent 1                     not enumerated at all; the indices of later slots move down
 *   gpu.N.FIELD value                  uuid name serial minor bdf pci_id subsystem_id board_part vbios inforom brand
 *                                      architecture temperature temperature.memory temperature.threshold.T power
 *                                      power.limit persistence compute_mode mig.current mig.pending numa_node
 *                                      ecc.current ecc.pending ecc.(corrected|uncorrected).(volatile|aggregate).(dram|sram)
 *                                      ecc.sram_threshold remap.correctable remap.uncorrectable remap.pending
 *                                      remap.failure remap.histogram.(max|high|partial|low|none) recovery_action
 *                                      pcie.generation pcie.width pcie.max_generation pcie.max_width pcie.replay
 *                                      nvlink.count nvlink.speed nvlink.L.state nvlink.L.error.(replay|recovery|crc)
 *                                      nvlink.L.remote fabric.state fabric.status fabric.clique fabric.health
 *                                      fabric.summary clocks.event_reasons clocks.(graphics|sm|mem|video)
 *                                      clocks.(max|app|app.default).(...) memory.total memory.reserved memory.used
 *                                      utilization.gpu utilization.memory pstate energy inforom.valid gsp gsp.mode
 *                                      gsp.default tlimit.now retired.(single|double|pending) (an older board's)
 *                                      slowed.(power_cap|sync|sw_thermal|hw_thermal|brake) (nanoseconds so far; it
 *                                      grows while the event reason stands, from the file's last change on)
 *                                      pcie.replay_rate (so many a minute come on top of pcie.replay)
 *                                      ecc.uncorrected.(volatile|aggregate).parity (how many of those in SRAM)
 *                                      repair.(channel|tpc|impossible)
 *                                      repair.channel repair.tpc
 *   gpu.N.mig.instances 1g.10gb,...    instances of a GPU whose mig.current is 1
 *   gpu.N.processes PID:BYTES,...      compute processes; gpu.N.graphics the same for graphics ones
 *   gpu.N.field.ID value               answers an NVML field id that is not known here; field.ID.error CODE
 */
#ifndef NODEVET_STAND_IN_H
#define NODEVET_STAND_IN_H

#include <stddef.h>

#define API __attribute__((visibility("default")))
#define MAX_GPUS 16
#define MAX_VALUE 1024

enum {
    OK = 0,
    UNINITIALIZED = 1,
    INVALID_ARGUMENT = 2,
    NOT_SUPPORTED = 3,
    NOT_FOUND = 6,
    INSUFFICIENT_SIZE = 7,
    DRIVER_NOT_LOADED = 9,
    CORRUPTED_INFOROM = 14,
    ARGUMENT_VERSION_MISMATCH = 25,
    UNKNOWN = 999,
};

struct slot {
    int number;
};
typedef struct slot *device_t;

/* state.c: what the file says */
void state_locate(void);
int state_readable(void);
int state_gone(void);
int state_text(const char *key, char *value, size_t size);
int state_number(const char *key, long long *value);
long long state_age(void); /* nanoseconds since the file was last replaced */

/* gate.c: every call passes it once: latency, hang, error */
int gate_once(const char *call);
int gate_system(const char *call);
int gate_device(device_t device, const char *call, int *slot);
void gate_opened(int by);
int gate_is_open(void);

/* slots.c: the GPUs and what is said of each */
int slot_count(void);
int slot_absent(int slot);
device_t slot_handle(int slot);
int slot_of(device_t device);
long long slot_number(int slot, const char *field, long long fallback);
int slot_has(int slot, const char *field, long long *value);
void slot_text(int slot, const char *field, char *value, size_t size, const char *fallback);
long long link_number(int slot, unsigned link, const char *field, long long fallback);
void slot_bdf(int slot, char *value, size_t size);
void slot_uuid(int slot, char *value, size_t size);
int copy_text(const char *text, char *out, unsigned size);

#define PASS(call)                                       \
    int slot, code = gate_device(device, call, &slot);   \
    if (code != OK)                                      \
    return code

/* nvmlDevice<symbol>(device, type *out) answers `field`. */
#define SCALAR(symbol, call, type, field, usual)               \
    API int nvmlDevice##symbol(device_t device, type *out)     \
    {                                                          \
        PASS(call);                                            \
        if (!out)                                              \
            return INVALID_ARGUMENT;                           \
        *out = (type)slot_number(slot, field, usual);          \
        return OK;                                             \
    }

/* Numbers that the C functions and the field ids both answer. */
long long ecc_count(int slot, int uncorrected, int aggregate, const char *place);
long long slowed_for(int slot, unsigned bit, const char *field);
long long replays(int slot);
long long link_errors(int slot, unsigned link, const char *kind);
int no_such_link(int slot, unsigned link);

#endif
