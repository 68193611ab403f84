/* Collects the job's variables, NUL-separated, into one bounded body; what identifies the job goes first. */
#include "hook.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct body body;

static const char *const FIRST[] = {"SLURM_JOB_ID",  "SLURM_JOBID",    "SLURMD_NODENAME",        "SLURM_CLUSTER_NAME",
                                    "SLURM_JOB_UID", "SLURM_JOB_GPUS", "SLURM_JOB_RESTART_COUNT"};
static const char *const DEVICES[] = {"CUDA_VISIBLE_DEVICES", "GPU_DEVICE_ORDINAL", "ROCR_VISIBLE_DEVICES",
                                      "ZE_AFFINITY_MASK"};

/* Beside slurmctld: the job's place in its array or het job, and nothing private (name, account, user, paths). */
static const char *const CENTRAL[] = {"SLURM_ARRAY_JOB_ID",   "SLURM_ARRAY_TASK_ID",   "SLURM_HET_JOB_ID",
                                      "SLURM_HET_JOB_OFFSET", "SLURM_JOB_NODELIST",    "SLURM_JOB_PARTITION",
                                      "SLURM_JOB_EXIT_CODE",  "SLURM_JOB_DERIVED_EC"};

static bool among(const char *const *names, size_t count, const char *entry, size_t length)
{
    for (size_t i = 0; i < count; i++)
        if (strlen(names[i]) == length && memcmp(names[i], entry, length) == 0)
            return true;
    return false;
}

static void add(const char *name, size_t name_length, const char *value, size_t most)
{
    size_t length = strnlen(value, most + 1);
    if (length > most) {
        length = most;
        body.truncated = true;
    }
    if (name_length + length + 2 > sizeof body.text - body.length) {
        body.truncated = true;
        return;
    }
    if (body.length)
        body.text[body.length++] = '\0';
    memcpy(body.text + body.length, name, name_length);
    body.length += name_length;
    body.text[body.length++] = '=';
    memcpy(body.text + body.length, value, length);
    body.length += length;
}

void collect(void)
{
    for (size_t i = 0; i < COUNT(FIRST); i++) {
        const char *value = getenv(FIRST[i]);
        if (value)
            add(FIRST[i], strlen(FIRST[i]), value, FIRST_MAX);
    }
    if (silent) /* the user's environment is none of ours */
        return;
    if (central) {
        for (size_t i = 0; i < COUNT(CENTRAL); i++)
            if (getenv(CENTRAL[i]))
                add(CENTRAL[i], strlen(CENTRAL[i]), getenv(CENTRAL[i]), VALUE_MAX);
        return;
    }
    for (size_t i = 0; environ && environ[i]; i++) {
        if (i == ENV_MAX) {
            body.truncated = true;
            break;
        }
        const char *entry = environ[i], *equals = strchr(entry, '=');
        size_t length = equals ? (size_t)(equals - entry) : 0;
        bool ours = strncmp(entry, "SLURM_", 6) == 0 || strncmp(entry, "SLURMD_", 7) == 0 ||
                    among(DEVICES, COUNT(DEVICES), entry, length);
        if (equals && ours && !among(FIRST, COUNT(FIRST), entry, length))
            add(entry, length, equals + 1, VALUE_MAX);
    }
}
