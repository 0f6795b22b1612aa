/* The state of the stand-in: a text file, read anew by each call. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "standin.h"

int initialized;

const char *path(const char *suffix, char *buffer) {
    const char *named = getenv("ACCELKIT_STANDIN_NVML");
    Dl_info library;
    if (named) {
        snprintf(buffer, PATHS, "%s%s", named, suffix);
    } else {
        dladdr((void *)path, &library);
        const char *end = strrchr(library.dli_fname, '/');
        int length = end ? (int)(end - library.dli_fname) : 1;
        snprintf(buffer, PATHS, "%.*s/standin-nvml%s", length, end ? library.dli_fname : ".", suffix);
    }
    return buffer;
}

FILE *open_beside(const char *suffix, const char *mode) {
    char buffer[PATHS];
    return fopen(path(suffix, buffer), mode);
}

char *next(FILE *file, const char *word, char *line) {
    size_t length = strlen(word);
    while (fgets(line, TEXT, file)) {
        line[strcspn(line, "\n")] = 0;
        if (!strncmp(line, word, length) && line[length] == ' ') return line + length + 1;
    }
    return NULL;
}

int begin(const char *function) {
    char line[TEXT], name[96];
    int number, result = initialized || !strncmp(function, "nvmlInit", 8) ? SUCCESS : UNINITIALIZED;
    FILE *file = open_beside("", "r");
    if (!file) return DRIVER_NOT_LOADED;
    for (char *rest; (rest = next(file, "delay", line));)
        if (sscanf(rest, "%95s %d", name, &number) == 2 && !strcmp(name, function)) usleep(1000u * (unsigned)number);
    rewind(file);
    for (char *rest; (rest = next(file, "fail", line));)
        if (sscanf(rest, "%95s %d", name, &number) == 2 && !strcmp(name, function)) result = number;
    fclose(file);
    return result;
}

int open_control_node(void) {
    char line[TEXT];
    FILE *file = open_beside("", "r");
    if (!file) return DRIVER_NOT_LOADED;
    char *named = next(file, "control", line);
    int node = open(named ? named : "/dev/nvidiactl", O_RDWR | O_CLOEXEC);
    int result = node >= 0 ? SUCCESS : errno == ENOENT ? DRIVER_NOT_LOADED : NO_PERMISSION;
    if (node >= 0) close(node);
    fclose(file);
    return result;
}

static int parse_card(char *text, card *found) {
    memset(found, 0, sizeof *found);
    /* A name has spaces, so it comes last. */
    char *name = strstr(text, " name="), *save;
    if (name) {
        snprintf(found->name, sizeof found->name, "%s", name + 6);
        *name = 0;
    }
    char *word = strtok_r(text, " ", &save);
    if (!word) return 0;
    snprintf(found->bdf, sizeof found->bdf, "%s", word);
    while ((word = strtok_r(NULL, " ", &save))) {
        sscanf(word, "uuid=%95s", found->uuid);
        sscanf(word, "links=%255s", found->links);
        sscanf(word, "minor=%u", &found->minor);
        sscanf(word, "mig=%u", &found->mig);
        sscanf(word, "total=%llu", &found->total);
        sscanf(word, "reserved=%llu", &found->reserved);
        sscanf(word, "used=%llu", &found->used);
    }
    return 1;
}

int same_address(const char *one, const char *other) {
    unsigned a[4], b[4];
    return sscanf(one, "%x:%x:%x.%x", a, a + 1, a + 2, a + 3) == 4 && sscanf(other, "%x:%x:%x.%x", b, b + 1, b + 2, b + 3) == 4
        && !memcmp(a, b, sizeof a);
}

int find(const char *bdf, const char *uuid, int index, card *found) {
    char line[TEXT];
    int count = 0;
    FILE *file = open_beside("", "r");
    if (!file) return -1;
    for (char *rest; (rest = next(file, "card", line)) && parse_card(rest, found); count++)
        if ((bdf && same_address(bdf, found->bdf)) || (uuid && !strcmp(uuid, found->uuid)) || index == count) {
            fclose(file);
            return CARDS;
        }
    fclose(file);
    return count;
}
