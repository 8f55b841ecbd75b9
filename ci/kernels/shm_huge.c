// A System V segment of huge pages, attached where the kernel likes. Needs one free huge page.
#define _GNU_SOURCE
#include "window.h"
#include <sys/shm.h>

int main(void) {
    int segment = shmget(IPC_PRIVATE, 2 << 20, IPC_CREAT | SHM_HUGETLB | 0600);
    if (segment < 0) {
        perror("shmget");
        return 2;
    }
    void *place = shmat(segment, NULL, 0);
    result("shmat", (long)place);
    printf(", %s\n", (long)place & ((2 << 20) - 1) ? "not aligned" : "aligned");
    shmctl(segment, IPC_RMID, NULL);
    return 0;
}
