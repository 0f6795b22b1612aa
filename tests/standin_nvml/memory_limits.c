/* Memory limits of cgroups, as drivers from release 615 on keep them: `BDF SOFT HARD CGROUP` a line. */

#define _GNU_SOURCE
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "standin.h"

typedef struct { const char *cgroup; bytes soft, hard; } set_limits;
typedef struct { const char *cgroup; bytes soft, hard, used; } get_limits;

static int is_cgroup(const char *folder) {
    char file[PATHS];
    snprintf(file, sizeof file, "%s/cgroup.procs", folder);
    return !access(file, F_OK);
}

static void note(const char *format, ...) {
    va_list arguments;
    FILE *file = open_beside(".notes", "a");
    if (!file) return;
    va_start(arguments, format);
    vfprintf(file, format, arguments);
    va_end(arguments);
    fclose(file);
}

/* Rewrites the limits without those of a cgroup and card and those of cgroups that are gone, and adds one. */
static int write_limits(const char *bdf, const set_limits *wanted) {
    char name[PATHS], line[TEXT + PATHS], cgroup[PATHS], of[32], *kept = NULL;
    size_t size = 0;
    bytes soft, hard;
    FILE *file = fopen(path(".limits", name), "a+");
    if (!file) return NO_PERMISSION;
    flock(fileno(file), LOCK_EX);
    rewind(file);
    FILE *text = open_memstream(&kept, &size);
    while (fgets(line, sizeof line, file)) {
        if (sscanf(line, "%31s %llu %llu %4095[^\n]", of, &soft, &hard, cgroup) != 4) continue;
        if (!is_cgroup(cgroup)) {
            /* The driver is not told that a cgroup ends, so what was reserved for it in those above it stays. */
            if (soft) note("leaked %s %llu %s\n", of, soft, cgroup);
        } else if (strcmp(of, bdf) || strcmp(cgroup, wanted->cgroup)) {
            fputs(line, text);
        }
    }
    if (wanted->soft || wanted->hard != ~0ULL)
        fprintf(text, "%s %llu %llu %s\n", bdf, wanted->soft, wanted->hard, wanted->cgroup);
    fclose(text);
    int result = ftruncate(fileno(file), 0) ? NO_PERMISSION : SUCCESS;
    fputs(kept, file);
    free(kept);
    fclose(file);
    return result;
}

int nvmlDeviceSetMemoryLimits_v1(device *handle, const set_limits *wanted) {
    CARD(handle);
    if (found.mig) return NOT_SUPPORTED;
    if (!wanted || !wanted->cgroup || wanted->soft > wanted->hard) return INVALID_ARGUMENT;
    if (!is_cgroup(wanted->cgroup)) {
        note("refused %s %s\n", found.bdf, wanted->cgroup);
        return NOT_FOUND;
    }
    return write_limits(found.bdf, wanted);
}

int nvmlDeviceGetMemoryLimits_v1(device *handle, get_limits *limits) {
    char line[TEXT + PATHS], cgroup[PATHS], bdf[32];
    bytes soft, hard;
    CARD(handle);
    if (found.mig) return NOT_SUPPORTED;
    if (!limits || !limits->cgroup) return INVALID_ARGUMENT;
    if (!is_cgroup(limits->cgroup)) return NOT_FOUND;
    limits->soft = limits->used = 0;
    limits->hard = ~0ULL;
    FILE *file = open_beside(".limits", "r");
    while (file && fgets(line, sizeof line, file))
        if (sscanf(line, "%31s %llu %llu %4095[^\n]", bdf, &soft, &hard, cgroup) == 4 && !strcmp(bdf, found.bdf)
            && !strcmp(cgroup, limits->cgroup)) {
            limits->soft = soft;
            limits->hard = hard;
        }
    if (file) fclose(file);
    return SUCCESS;
}
