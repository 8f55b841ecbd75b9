"""Threads that map and unmap, forked children, and a spawned program."""
import mmap
import os
import threading


def work(number):
    kept = []
    for i in range(40):
        piece = mmap.mmap(-1, 4096 * (1 + i % 7))
        piece[0] = 1
        kept.append(piece)
        if i % 3 == 0:
            kept.pop(0).close()


threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
for _ in range(3):
    child = os.fork()
    if child == 0:
        bytearray(3 << 20)
        os._exit(0)
    os.waitpid(child, 0)
child = os.posix_spawn("/bin/busybox", ["echo", "spawned"], {})
os.waitpid(child, 0)
print("all threads and children have ended")
