/* The C interface of NVIDIA's management library, as pynvml calls it, over the state. See README.md. */

#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "standin.h"

typedef struct { unsigned pid; bytes used; unsigned gpu_instance, compute_instance; } process;
typedef struct { bytes total, free, used; } memory_v1;
typedef struct { unsigned version; bytes total, reserved, free, used; } memory_v2;
typedef struct { char legacy[16]; unsigned domain, bus, dev, id, subsystem; char bus_id[32]; } pci;
typedef struct { device *card; bytes type, data; unsigned gpu_instance, compute_instance; } event;
typedef struct { device *cards[CARDS]; long offset; } event_set;

static device known[CARDS];

static int give_handle(int there, const card *found, device **handle) {
    if (there != CARDS) return NOT_FOUND;
    for (int i = 0; i < CARDS; i++)
        if (!known[i].bdf[0] || !strcmp(known[i].bdf, found->bdf)) {
            memcpy(known[i].bdf, found->bdf, sizeof found->bdf);
            *handle = &known[i];
            return SUCCESS;
        }
    return NOT_FOUND;
}

static int give_text(const char *text, char *buffer, unsigned size) {
    return snprintf(buffer, size, "%s", text) < (int)size ? SUCCESS : INSUFFICIENT_SIZE;
}

static int initialize(void) {
    int result = open_control_node();
    initialized += !result;
    return result;
}
int nvmlInitWithFlags(unsigned flags) { (void)flags; BEGIN; return initialize(); }
int nvmlInit_v2(void) { BEGIN; return initialize(); }
int nvmlShutdown(void) { BEGIN; initialized--; return SUCCESS; }
const char *nvmlErrorString(int code) { (void)code; return "the stand-in was told to fail"; }

int nvmlSystemGetDriverVersion(char *buffer, unsigned size) {
    char line[TEXT];
    BEGIN;
    FILE *file = open_beside("", "r");
    char *version = file ? next(file, "driver", line) : NULL;
    if (file) fclose(file);
    return version ? give_text(version, buffer, size) : NOT_SUPPORTED;
}

int nvmlDeviceGetCount_v2(unsigned *count) { BEGIN; card last; *count = (unsigned)find(NULL, NULL, -1, &last); return SUCCESS; }
int nvmlDeviceGetHandleByIndex_v2(unsigned index, device **handle) {
    BEGIN; card found; return give_handle(find(NULL, NULL, (int)index, &found), &found, handle);
}
int nvmlDeviceGetHandleByPciBusId_v2(const char *bdf, device **handle) {
    BEGIN; card found; return give_handle(find(bdf, NULL, -1, &found), &found, handle);
}
int nvmlDeviceGetHandleByUUID(const char *uuid, device **handle) {
    BEGIN; card found; return give_handle(find(NULL, uuid, -1, &found), &found, handle);
}
int nvmlDeviceGetUUID(device *handle, char *buffer, unsigned size) { CARD(handle); return give_text(found.uuid, buffer, size); }
int nvmlDeviceGetName(device *handle, char *buffer, unsigned size) { CARD(handle); return give_text(found.name, buffer, size); }
int nvmlDeviceGetMinorNumber(device *handle, unsigned *minor) { CARD(handle); *minor = found.minor; return SUCCESS; }
int nvmlDeviceGetMigMode(device *handle, unsigned *current, unsigned *pending) {
    CARD(handle); *current = *pending = found.mig; return SUCCESS;
}

int nvmlDeviceGetMemoryInfo(device *handle, memory_v1 *memory) {
    CARD(handle);
    *memory = (memory_v1){found.total, found.total - found.used - found.reserved, found.used + found.reserved};
    return SUCCESS;
}

int nvmlDeviceGetMemoryInfo_v2(device *handle, memory_v2 *memory) {
    CARD(handle);
    if (memory->version != MEMORY_V2) return VERSION_MISMATCH;
    bytes unused = found.total - found.used - found.reserved;
    *memory = (memory_v2){MEMORY_V2, found.total, found.reserved, unused, found.used};
    return SUCCESS;
}

/* The other end of a link: an address, or `switch`. */
static int find_link(const card *found, unsigned link, char *end) {
    char links[256], *save, *word;
    snprintf(links, sizeof links, "%s", found->links);
    for (word = strtok_r(links, ",", &save); word && link; link--) word = strtok_r(NULL, ",", &save);
    if (word) snprintf(end, 32, "%s", word);
    return word ? SUCCESS : INVALID_ARGUMENT;
}

int nvmlDeviceGetNvLinkState(device *handle, unsigned link, unsigned *active) {
    CARD(handle); char end[32]; *active = 1; return find_link(&found, link, end);
}
int nvmlDeviceGetNvLinkRemoteDeviceType(device *handle, unsigned link, unsigned *type) {
    CARD(handle); char end[32]; int result = find_link(&found, link, end);
    if (!result) *type = strcmp(end, "switch") ? REMOTE_GPU : REMOTE_SWITCH;
    return result;
}
int nvmlDeviceGetNvLinkRemotePciInfo_v2(device *handle, unsigned link, pci *remote) {
    CARD(handle); char end[32]; int result = find_link(&found, link, end); unsigned domain = 0; char rest[16] = "00:00.0";
    if (result) return result;
    memset(remote, 0, sizeof *remote);
    sscanf(end, "%x:%15s", &domain, rest);
    snprintf(remote->bus_id, sizeof remote->bus_id, "%08X:%s", domain, rest);
    return SUCCESS;
}

static int list_processes(const card *of, const char *kind, unsigned *count, process *processes) {
    char line[TEXT], bdf[32], amount[32], is[16];
    unsigned pid, number = 0;
    FILE *file = open_beside("", "r");
    if (!file) return DRIVER_NOT_LOADED;
    for (char *rest; (rest = next(file, "process", line));) {
        strcpy(is, "compute");
        if (sscanf(rest, "%31s %u %31s %15s", bdf, &pid, amount, is) < 3 || strcmp(is, kind) || !same_address(bdf, of->bdf)) continue;
        bytes used = amount[0] == '-' ? ~0ULL : strtoull(amount, NULL, 10);
        if (number < *count) processes[number] = (process){pid, used, ~0u, ~0u};
        number++;
    }
    fclose(file);
    int result = number > *count ? INSUFFICIENT_SIZE : SUCCESS;
    *count = number;
    return result;
}
int nvmlDeviceGetComputeRunningProcesses_v3(device *handle, unsigned *count, process *of) {
    CARD(handle); return list_processes(&found, "compute", count, of);
}
int nvmlDeviceGetGraphicsRunningProcesses_v3(device *handle, unsigned *count, process *of) {
    CARD(handle); return list_processes(&found, "graphics", count, of);
}
int nvmlDeviceGetMPSComputeRunningProcesses_v3(device *handle, unsigned *count, process *of) {
    CARD(handle); return list_processes(&found, "mps", count, of);
}

/* Events are those that come after the set was made, as of the driver. */
int nvmlEventSetCreate(event_set **set) {
    struct stat status;
    char buffer[PATHS];
    BEGIN;
    *set = calloc(1, sizeof **set);
    (*set)->offset = stat(path(".xids", buffer), &status) ? 0 : status.st_size;
    return SUCCESS;
}
int nvmlEventSetFree(event_set *set) { BEGIN; free(set); return SUCCESS; }
int nvmlDeviceRegisterEvents(device *handle, bytes types, event_set *set) {
    CARD(handle);
    if (types != XID_EVENTS) return NOT_SUPPORTED;
    set->cards[handle - known] = handle;
    return SUCCESS;
}
int nvmlEventSetWait_v2(event_set *set, event *happened, unsigned milliseconds) {
    char line[TEXT], bdf[32];
    for (unsigned waited = 0;; waited += 20) {
        BEGIN;
        FILE *file = open_beside(".xids", "r");
        if (file) {
            fseek(file, set->offset, SEEK_SET);
            while (fgets(line, sizeof line, file) && strchr(line, '\n')) {
                bytes xid;
                set->offset = ftell(file);
                for (int i = 0; i < CARDS && sscanf(line, "%31s %llu", bdf, &xid) == 2; i++)
                    if (set->cards[i] && same_address(bdf, known[i].bdf)) {
                        *happened = (event){set->cards[i], XID_EVENTS, xid, ~0u, ~0u};
                        fclose(file);
                        return SUCCESS;
                    }
            }
            fclose(file);
        }
        if (waited >= milliseconds) return TIMEOUT;
        usleep(20000);
    }
}
